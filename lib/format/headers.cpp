// HeaderCursor and HeaderBuilder of partlog/record.h.
#include <limits>

#include "base/varint.h"
#include "partlog/error.h"
#include "partlog/record.h"

namespace partlog {

namespace {

// For blocks that were validated: the varint is known to end.
std::int32_t trusted_varint(const char*& at) {
  std::uint32_t v = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*at++);
    v |= static_cast<std::uint32_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return unzigzag32(v);
  }
}

void append_varint(std::string& to, std::int64_t value) {
  char bytes[max_varint64_size];
  to.append(bytes, write_varint(bytes, value));
}

}  // namespace

bool HeaderCursor::next(Header& header) {
  if (left_ == 0) return false;
  --left_;
  const auto name_size = static_cast<std::size_t>(trusted_varint(at_));
  header.name = {at_, name_size};
  at_ += name_size;
  const std::int32_t value_size = trusted_varint(at_);
  if (value_size < 0) {
    header.value = {};
  } else {
    header.value = {at_, static_cast<std::size_t>(value_size)};
    at_ += value_size;
  }
  return true;
}

void HeaderBuilder::add(std::string_view name, Bytes value) {
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  if (name.size() > most || value.size() > most - name.size() || encoded_.size() + 10 > most - name.size() - value.size()) {
    throw Error(ErrorCode::invalid_argument, "the headers of a record take 2 GiB or more");
  }
  append_varint(encoded_, static_cast<std::int64_t>(name.size()));
  encoded_.append(name);
  append_varint(encoded_, value.is_null() ? -1 : static_cast<std::int64_t>(value.size()));
  encoded_.append(value.view());
  ++count_;
}

void HeaderBuilder::clear() {
  encoded_.clear();
  count_ = 0;
}

HeaderBlock HeaderBuilder::block() const { return {encoded_.data(), static_cast<std::uint32_t>(encoded_.size()), count_}; }

}  // namespace partlog

// HeaderCursor and HeaderBuilder of partlog/record.h.
#include <cstring>
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

std::int64_t encoded_size(Bytes bytes) { return bytes.is_null() ? -1 : static_cast<std::int64_t>(bytes.size()); }

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
  if (over_ != nullptr) {
    encoded_.assign(over_, over_end_);
    over_ = nullptr;
  }
  append(name, value);
}

void HeaderBuilder::append(std::string_view name, Bytes value) {
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  if (name.size() > most || value.size() > most - name.size() || encoded_.size() + 10 > most - name.size() - value.size()) {
    throw Error(ErrorCode::invalid_argument, "the headers of a record take 2 GiB or more");
  }
  append_varint(encoded_, encoded_size(name));
  encoded_.append(name);
  append_varint(encoded_, encoded_size(value));
  encoded_.append(value.view());
  ++count_;
}

void HeaderBuilder::clear() {
  encoded_.clear();
  count_ = 0;
  over_ = nullptr;
}

void HeaderBuilder::write_over(char* begin) { over_ = over_end_ = begin; }

bool HeaderBuilder::fits_over(std::string_view name, Bytes value) const {
  if (over_ == nullptr) return false;
  const auto name_at = over_end_ + varint_size(encoded_size(name));
  const auto value_at = name_at + name.size() + varint_size(encoded_size(value));
  return name_at <= name.data() && value_at <= (value.size() > 0 ? value.data() : name.data() + name.size() + 1);
}

void HeaderBuilder::add_over(std::string_view name, Bytes value) {
  if (!fits_over(name, value)) return add(name, value);
  char* const name_at = write_varint(over_end_, encoded_size(name));
  std::memmove(name_at, name.data(), name.size());
  char* const value_at = write_varint(name_at + name.size(), encoded_size(value));
  if (value.size() > 0) std::memmove(value_at, value.data(), value.size());
  over_end_ = value_at + value.size();
  ++count_;
}

HeaderBlock HeaderBuilder::block() const {
  if (over_ != nullptr) return {over_, static_cast<std::uint32_t>(over_end_ - over_), count_};
  return {encoded_.data(), static_cast<std::uint32_t>(encoded_.size()), count_};
}

}  // namespace partlog

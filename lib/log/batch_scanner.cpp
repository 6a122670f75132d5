#include "log/batch_scanner.h"

#include "base/byte_order.h"

namespace partlog::log {

using format::batch_header_size;

namespace {

// Formats v0 and v1: offset, size, CRC-32, magic, …; the size counts from the checksum on. A zero-filled tail does not look like
// one.
bool looks_like_old_message(std::span<const char> bytes) {
  constexpr std::int32_t smallest = 14;
  constexpr std::int32_t largest = 1 << 28;
  const auto size = load_big_endian<std::int32_t>(bytes.data() + format::field::batch_length);
  return load_big_endian<std::int64_t>(bytes.data()) >= 0 && size >= smallest && size <= largest;
}

}  // namespace

Scan BatchScanner::next() {
  position_ = next_position_;
  auto bytes = window_.view(position_, batch_header_size);
  if (bytes.empty()) return Scan::end;
  if (bytes.size() < format::batch_magic_end) {
    fault_ = "the file ends inside a batch header";
    return Scan::partial;
  }
  if (const auto magic = bytes[format::field::magic]; magic != 2) {
    fault_ = "no record batch stands here";
    return (magic == 0 || magic == 1) && looks_like_old_message(bytes) ? Scan::old : Scan::invalid;
  }
  if (bytes.size() < batch_header_size) {
    fault_ = "the file ends inside a batch header";
    return Scan::partial;
  }
  header_ = format::read_batch_header(bytes);
  if (const char* fault = format::header_fault(header_)) {
    fault_ = fault;
    return Scan::invalid;
  }
  if (header_.base_offset < expected_) {
    fault_ = "its offset does not rise";
    return Scan::invalid;
  }
  const auto size = static_cast<std::size_t>(header_.size());
  bytes = window_.view(position_, size);
  if (bytes.size() < size) {
    fault_ = "the file ends inside the batch";
    return Scan::partial;
  }
  batch_ = bytes.first(size);
  if (!format::checksum_matches(header_, batch_)) {
    fault_ = "its checksum is wrong";
    return Scan::invalid;
  }
  next_position_ = position_ + header_.size();
  expected_ = header_.next_offset();
  return Scan::batch;
}

}  // namespace partlog::log

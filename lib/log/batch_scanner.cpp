#include "log/batch_scanner.h"

#include <limits>

#include "base/byte_order.h"
#include "base/crc32.h"

namespace partlog::log {

using format::batch_header_size;

namespace {

// Formats v0 and v1: offset, size, CRC-32, magic, …; the size counts from the checksum on.
constexpr std::size_t old_checksum = 12;
constexpr std::int32_t smallest_old_message = 14;
constexpr std::int32_t largest_old_message = 1 << 28;

}  // namespace

// Chance alone, or a flipped bit, can make any bytes look like one; the checksum tells.
bool BatchScanner::is_old_message(std::span<const char> bytes) {
  const auto size = load_big_endian<std::int32_t>(bytes.data() + format::field::batch_length);
  if (size < smallest_old_message || size > largest_old_message) return false;
  const auto whole = format::batch_prefix_size + static_cast<std::size_t>(size);
  bytes = window_.view(position_, whole);
  if (bytes.size() < whole) return false;
  const auto checksum = load_big_endian<std::uint32_t>(bytes.data() + old_checksum);
  return crc32(bytes.first(whole).subspan(old_checksum + sizeof(checksum))) == checksum;
}

// Whether the batch behind this one, whole and sound, has an offset that this one already covers.
bool BatchScanner::contradicted_by_next(std::size_t size) {
  auto bytes = window_.view(position_, size + batch_header_size);
  if (bytes.size() < size + batch_header_size) return false;
  const auto next = format::read_batch_header(bytes.subspan(size));
  if (format::header_fault(next) != nullptr || next.base_offset >= header_.next_offset()) return false;
  const auto both = size + static_cast<std::size_t>(next.size());
  bytes = window_.view(position_, both);
  return bytes.size() >= both && format::checksum_matches(next, bytes.subspan(size));
}

// The base offset stands outside the checksum: a gap in front of it is believed unless what follows, or the 31 bits that a
// segment has for offsets, say otherwise.
bool BatchScanner::offset_is_credible(std::size_t size) {
  return header_.last_offset() - expected_ <= std::numeric_limits<std::int32_t>::max() && !contradicted_by_next(size);
}

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
    return (magic == 0 || magic == 1) && is_old_message(bytes) ? Scan::old : Scan::invalid;
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
  if (header_.base_offset > expected_) {
    if (!offset_is_credible(size)) {
      fault_ = "its offset does not fit what follows";
      return Scan::invalid;
    }
    batch_ = window_.view(position_, size).first(size);
  }
  next_position_ = position_ + header_.size();
  expected_ = header_.next_offset();
  return Scan::batch;
}

}  // namespace partlog::log

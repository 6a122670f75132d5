#include "format/index_entry.h"

#include <limits>

#include "base/byte_order.h"
#include "base/check.h"

namespace partlog::format {

namespace {

std::int32_t as_int32(std::int64_t value) {
  PARTLOG_CHECK(value >= 0 && value <= std::numeric_limits<std::int32_t>::max());
  return static_cast<std::int32_t>(value);
}

}  // namespace

std::array<char, offset_index_entry_size> encode(const OffsetIndexEntry& entry, Offset segment_base) {
  std::array<char, offset_index_entry_size> bytes;
  store_big_endian(bytes.data(), as_int32(entry.offset - segment_base));
  store_big_endian(bytes.data() + 4, as_int32(entry.position.value));
  return bytes;
}

std::array<char, time_index_entry_size> encode(const TimeIndexEntry& entry, Offset segment_base) {
  std::array<char, time_index_entry_size> bytes;
  store_big_endian(bytes.data(), entry.timestamp.value);
  store_big_endian(bytes.data() + 8, as_int32(entry.offset - segment_base));
  return bytes;
}

OffsetIndexEntry decode_offset_index_entry(const char* bytes, Offset segment_base) {
  return {segment_base + load_big_endian<std::int32_t>(bytes), Position{load_big_endian<std::int32_t>(bytes + 4)}};
}

TimeIndexEntry decode_time_index_entry(const char* bytes, Offset segment_base) {
  return {Timestamp{load_big_endian<std::int64_t>(bytes)}, segment_base + load_big_endian<std::int32_t>(bytes + 8)};
}

}  // namespace partlog::format

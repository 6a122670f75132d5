// Entries of Kafka's sparse indexes. Offset index: int32 offset relative to the segment's base offset, int32 position. Time
// index: int64 timestamp, int32 relative offset. Big endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "partlog/types.h"

namespace partlog::format {

inline constexpr std::size_t offset_index_entry_size = 8;
inline constexpr std::size_t time_index_entry_size = 12;

// "One batch starts at `position`, and `offset` is its last offset."
struct OffsetIndexEntry {
  Offset offset;
  Position position;
  friend bool operator==(const OffsetIndexEntry&, const OffsetIndexEntry&) = default;
};

// "The largest timestamp up to here is `timestamp`, first reached in the batch whose last offset is `offset`."
struct TimeIndexEntry {
  Timestamp timestamp;
  Offset offset;
  friend bool operator==(const TimeIndexEntry&, const TimeIndexEntry&) = default;
};

std::array<char, offset_index_entry_size> encode(const OffsetIndexEntry& entry, Offset segment_base);
std::array<char, time_index_entry_size> encode(const TimeIndexEntry& entry, Offset segment_base);
OffsetIndexEntry decode_offset_index_entry(const char* bytes, Offset segment_base);
TimeIndexEntry decode_time_index_entry(const char* bytes, Offset segment_base);

}  // namespace partlog::format

// Vocabulary types. An *offset* is always logical (the number of a record in its partition), a *position* always a byte in a
// file, an *end offset* the next offset to be written, a *timestamp* milliseconds since 1970-01-01 UTC.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace partlog {

// An integer that does not mix with others of its kind: comparable, movable by a distance, subtractable to a distance.
template <class Tag>
struct Strong {
  std::int64_t value = 0;

  friend constexpr auto operator<=>(Strong, Strong) = default;
  friend constexpr Strong operator+(Strong a, std::int64_t n) { return {a.value + n}; }
  friend constexpr Strong operator-(Strong a, std::int64_t n) { return {a.value - n}; }
  friend constexpr std::int64_t operator-(Strong a, Strong b) { return a.value - b.value; }
  constexpr Strong& operator+=(std::int64_t n) {
    value += n;
    return *this;
  }
};

using Offset = Strong<struct OffsetTag>;
using Position = Strong<struct PositionTag>;
using Timestamp = Strong<struct TimestampTag>;

// For messages: "offset 3", "offsets 3 to 5"; with the verb "offset 3 is", "offsets 3 to 5 are".
inline std::string offsets_text(Offset first, Offset last) {
  const auto from = std::to_string(first.value);
  return first == last ? "offset " + from : "offsets " + from + " to " + std::to_string(last.value);
}
inline std::string offsets_are(Offset first, Offset last) { return offsets_text(first, last) + (first == last ? " is" : " are"); }

inline constexpr Timestamp no_timestamp{-1};  // Kafka's RecordBatch.NO_TIMESTAMP
inline constexpr std::int32_t no_epoch = -1;  // Kafka's RecordBatch.NO_PARTITION_LEADER_EPOCH

// Kafka's names and attribute values (record batch attributes, bits 0-2 and bit 3).
enum class Compression : std::uint8_t { none = 0, gzip = 1, snappy = 2, lz4 = 3, zstd = 4 };
enum class TimestampType : std::uint8_t { create_time = 0, log_append_time = 1, none = 2 };

}  // namespace partlog

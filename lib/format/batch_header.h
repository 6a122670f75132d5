// The header of one batch of any message format: what a segment file is a sequence of.
//
// Format v2 (magic 2; "Record Batch" in the Kafka documentation; KIP-98) has batches of records. In the formats v0 and v1 (magic
// 0 and 1, "Message sets" and "Old Message Format" there; KIP-31 and KIP-32 for v1) single messages stand in the file, and
// several records are one message whose compressed value holds messages: a wrapper. One message, plain or wrapper, is here the
// batch. All three formats share the place of offset, length and magic byte. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "partlog/types.h"

namespace partlog::format {

// Byte positions inside a batch of format v2, each from the one before it.
namespace field {
inline constexpr std::size_t base_offset = 0;
inline constexpr std::size_t batch_length = base_offset + 8;
inline constexpr std::size_t leader_epoch = batch_length + 4;
inline constexpr std::size_t magic = leader_epoch + 4;
inline constexpr std::size_t crc = magic + 1;
inline constexpr std::size_t attributes = crc + 4;
inline constexpr std::size_t last_offset_delta = attributes + 2;
inline constexpr std::size_t base_timestamp = last_offset_delta + 4;
inline constexpr std::size_t max_timestamp = base_timestamp + 8;
inline constexpr std::size_t producer_id = max_timestamp + 8;
inline constexpr std::size_t producer_epoch = producer_id + 8;
inline constexpr std::size_t base_sequence = producer_epoch + 2;
inline constexpr std::size_t record_count = base_sequence + 4;
inline constexpr std::size_t records = record_count + 4;
}  // namespace field

// Byte positions inside a message of format v0 or v1. Behind `attributes` (v1: behind `timestamp`) follow key and value, each a
// length in four bytes, negative for null, and so many bytes.
namespace message_field {
inline constexpr std::size_t offset = 0;  // of a wrapper: that of its last message
inline constexpr std::size_t size = offset + 8;
inline constexpr std::size_t crc = size + 4;
inline constexpr std::size_t magic = crc + 4;
inline constexpr std::size_t attributes = magic + 1;
inline constexpr std::size_t end_v0 = attributes + 1;
inline constexpr std::size_t timestamp = end_v0;
inline constexpr std::size_t end_v1 = timestamp + 8;
static_assert(offset == field::base_offset && size == field::batch_length && magic == field::magic);
}  // namespace message_field

inline constexpr std::size_t batch_header_size = field::records;       // 61: the longest header there is
inline constexpr std::size_t batch_prefix_size = field::leader_epoch;  // 12: what batch_length does not count
inline constexpr std::size_t batch_magic_end = field::magic + 1;       // 17: enough to tell the message format
inline constexpr std::size_t min_message_size = message_field::end_v0 + 2 * sizeof(std::int32_t);  // 26: nothing whole is shorter
// Of format v2: length, attributes, two deltas, two lengths, number of headers: a byte each at least.
inline constexpr std::int32_t min_record_size = 7;
// Some sixty times what a broker takes by default for a whole batch. While an output buffer grows there are two of it, and zstd
// keeps up to as much again.
inline constexpr std::size_t default_decompression_limit = 64u << 20;

// In the formats v0 and v1: no epoch, no producer, of the attributes only the bits that mean something. Of a wrapper its last
// offset is known from the start; MessageSet, which looks inside, tells the first one and the count.
struct BatchHeader {
  Offset base_offset;
  std::int32_t batch_length = 0;
  std::int32_t leader_epoch = no_epoch;
  std::int8_t magic = 2;
  std::uint32_t crc = 0;
  std::int16_t attributes = 0;
  std::int32_t last_offset_delta = 0;
  Timestamp base_timestamp;
  Timestamp max_timestamp;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::int32_t base_sequence = -1;
  std::int32_t record_count = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(batch_prefix_size) + batch_length; }
  Offset last_offset() const { return base_offset + last_offset_delta; }
  Offset next_offset() const { return last_offset() + 1; }
  Compression compression() const { return static_cast<Compression>(attributes & 7); }
  TimestampType timestamp_type() const {
    if (magic == 0) return TimestampType::none;
    return (attributes & 8) != 0 ? TimestampType::log_append_time : TimestampType::create_time;
  }
  bool is_transactional() const { return (attributes & 16) != 0; }
  bool is_control() const { return (attributes & 32) != 0; }
  // Then base_timestamp is the time from which on tombstones and markers in this batch may go (KIP-534). The records' own
  // timestamps are still the sum of that field and their deltas.
  bool has_delete_horizon() const { return (attributes & 64) != 0; }
  bool is_message() const { return magic == 0 || magic == 1; }
  bool is_wrapper() const { return is_message() && compression() != Compression::none; }
};

// The length of a header with this magic byte. Any byte may be given; an unknown format is read as v2.
constexpr std::size_t header_size_of(char magic) {
  return magic == 0 ? message_field::end_v0 : magic == 1 ? message_field::end_v1 : batch_header_size;
}

// Reads the fields of a header; `bytes` holds all of it: header_size_of() bytes, for which batch_header_size is always enough. No
// judgement.
BatchHeader read_batch_header(std::span<const char> bytes);

// The same, nullopt if `bytes` hold only the beginning of a header.
std::optional<BatchHeader> read_whole_header(std::span<const char> bytes);

// Why these fields cannot be the header of a batch (impossible length, unknown magic or codec, negative offset or delta, more
// records than bytes could hold …); nullptr if they can. A static string, for a message.
const char* header_fault(const BatchHeader& header);

// The base offset stands outside the checksum: whether a single flipped bit makes one of these of the other.
bool is_one_bit_off(Offset a, Offset b);

// The checksum covers the batch from this position on: CRC-32C in format v2, CRC-32 in v0 and v1.
std::size_t checksum_start(const BatchHeader& header);
// Continues the checksum of such a batch, which is 0 at first, over the bytes that follow.
std::uint32_t extend_checksum(const BatchHeader& header, std::uint32_t sum, std::span<const char> bytes);

// Whether the checksum of a whole batch (header.size() bytes) is right.
bool checksum_matches(const BatchHeader& header, std::span<const char> batch);

// A marker at the end of a transaction (format v2) with one bit less or more than it had, in its length, behind its epoch, or the
// sign of its offset: that bit, counted from the start (bit 0 is the lowest of the first byte), and the header that is right.
// `batch`: from its start to where the next one begins. nullopt: no single bit makes such a marker of it. Of so few bytes, 78,
// those with the same CRC-32C differ in six bits at least (Koopman, "32-Bit Cyclic Redundancy Codes for Internet Applications",
// 2002), so that this is never guessed where two to four bits are wrong.
inline constexpr std::size_t largest_marker = 128;
struct FlippedBit {
  std::size_t bit = 0;
  BatchHeader right;
};
std::optional<FlippedBit> flipped_bit_of_marker(std::span<const char> batch);

}  // namespace partlog::format

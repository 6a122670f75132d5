// Record batches of message format v2 (magic 2) as Kafka documents them ("Record Batch" in the Kafka documentation; KIP-98): the
// header, a builder and a decoder. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/copy_bytes.h"
#include "base/raw_buffer.h"
#include "base/varint.h"
#include "partlog/record.h"
#include "partlog/types.h"

namespace partlog::format {

// Byte positions inside a batch, each from the one before it.
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

inline constexpr std::size_t batch_header_size = field::records;       // 61
inline constexpr std::size_t batch_prefix_size = field::leader_epoch;  // 12: what batch_length does not count
inline constexpr std::size_t batch_magic_end = field::magic + 1;       // 17: enough to tell the message format
inline constexpr std::size_t default_decompression_limit = 256u << 20;

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
    return (attributes & 8) != 0 ? TimestampType::log_append_time : TimestampType::create_time;
  }
  bool is_transactional() const { return (attributes & 16) != 0; }
  bool is_control() const { return (attributes & 32) != 0; }
  bool has_delete_horizon() const { return (attributes & 64) != 0; }
};

// Reads the fields of a header; `bytes` holds at least batch_header_size bytes. No judgement.
BatchHeader read_batch_header(std::span<const char> bytes);

// Why these fields cannot be the header of a v2 batch (impossible length, magic, codec, negative offset or delta, more records
// than bytes could hold …); nullptr if they can. A static string, for a message.
const char* header_fault(const BatchHeader& header);

// Whether the checksum of a whole batch (header.size() bytes) is right.
bool checksum_matches(const BatchHeader& header, std::span<const char> batch);

// Sets base offset and leader epoch of a whole batch: the 12 bytes outside its checksum.
void set_offset_and_epoch(std::span<char> batch, Offset base_offset, std::int32_t leader_epoch);

// Turns a built batch into one with append-time stamps: attribute bit, max_timestamp, checksum.
void set_log_append_time(std::span<char> batch, Timestamp now);

struct CompressionSettings {
  Compression compression = Compression::none;
  std::optional<int> level;  // nullopt: the codec's default
};

// Collects records and turns them into one batch. Not thread safe. Memory: the largest batch built so far, twice with
// compression.
//
// Keeping to Kafka's max.message.bytes, which counts the whole batch as stored, is the caller's: without compression size() plus
// size_of() tells before a record is added; with compression only the size of what finish() returns does.
class BatchBuilder {
 public:
  explicit BatchBuilder(CompressionSettings settings = {}) : settings_(settings) {}

  // The exact number of bytes by which `record` would lengthen the uncompressed batch.
  std::size_t size_of(const Record& record) const { return whole_size(body_size(record)); }
  // Adds a copy. record.timestamp is taken as it is. The hot path of a producer: no allocation once the buffer has grown. A batch
  // must not come to 2 GiB (checked), nor hold more than 2^31 - 1 records.
  void add(const Record& record);
  bool empty() const { return count_ == 0; }
  std::int32_t count() const { return count_; }
  // Bytes of the batch so far, header included, before compression.
  std::size_t size() const { return used_; }
  Timestamp max_timestamp() const { return max_timestamp_; }

  // The finished batch with base offset 0, leader epoch 0 and its checksum; valid until the next add or clear. The records stay
  // until clear(). There must be one at least.
  std::span<char> finish();
  void clear();  // keeps the buffer
  // Gives memory back. Clears, too.
  void release();

 private:
  static constexpr std::int64_t null_size = -1;
  static constexpr std::size_t max_size = 0x7fffffff;

  static std::size_t bytes_size(const Bytes& bytes) {
    return bytes.is_null() ? varint_size(null_size) : varint_size(static_cast<std::int64_t>(bytes.size())) + bytes.size();
  }
  static char* write_bytes(char* to, const Bytes& bytes) {
    if (bytes.is_null()) return write_varint(to, null_size);
    to = write_varint(to, static_cast<std::int64_t>(bytes.size()));
    copy_bytes(to, bytes.data(), bytes.size());
    return to + bytes.size();
  }
  static std::size_t whole_size(std::size_t body) { return varint_size(static_cast<std::int64_t>(body)) + body; }
  // Modulo 2^64, as the reader adds it.
  std::int64_t timestamp_delta(const Record& record) const {
    if (count_ == 0) return 0;
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(record.timestamp.value) -
                                     static_cast<std::uint64_t>(base_timestamp_.value));
  }
  // What the length in front of a record counts.
  std::size_t body_size(const Record& record) const {
    return 1 + varint_size(timestamp_delta(record)) + varint_size(count_) + bytes_size(record.key) + bytes_size(record.value) +
           varint_size(record.headers.count) + record.headers.size;
  }
  void grow(std::size_t room);
  void write_header(char* batch, std::size_t size) const;

  CompressionSettings settings_;
  RawBuffer buffer_;  // the header's place, then records
  std::size_t used_ = batch_header_size;
  std::vector<char> compressed_;
  std::int32_t count_ = 0;
  Timestamp base_timestamp_;
  Timestamp max_timestamp_ = no_timestamp;
};

inline void BatchBuilder::add(const Record& record) {
  const std::size_t body = body_size(record);
  const std::size_t room = max_varint32_size + body;
  if (used_ + room > buffer_.capacity()) grow(room);
  const std::int64_t delta = timestamp_delta(record);
  if (count_ == 0) base_timestamp_ = record.timestamp;
  if (count_ == 0 || record.timestamp > max_timestamp_) max_timestamp_ = record.timestamp;

  char* const start = buffer_.data() + used_;
  char* to = write_varint(start, static_cast<std::int64_t>(body));
  *to++ = 0;  // attributes
  to = write_varint(to, delta);
  to = write_varint(to, count_);
  to = write_bytes(to, record.key);
  to = write_bytes(to, record.value);
  to = write_varint(to, record.headers.count);
  copy_bytes(to, record.headers.data, record.headers.size);
  used_ += static_cast<std::size_t>(to - start) + record.headers.size;
  ++count_;
}

// Decodes the records of one batch whose header has no fault and whose checksum matches. Every length is checked, those of
// headers too: a malformed record is a fault, never an access outside the batch. The hot path of a consumer.
//
// Offsets may have holes (compaction), but rise and end at or before the batch's last offset. Record attributes and needlessly
// long varints are passed over and any negative length of a key or value is null, as in Kafka's own reader. A record's timestamp
// is the batch's for log append time, else the sum of the base_timestamp field and its delta, also where that field is a delete
// horizon (KIP-534).
class RecordDecoder {
 public:
  // `batch` must outlive the decoding (records point into it when it is not compressed). Decompresses if need be into a buffer
  // kept for reuse, never more than `decompression_limit` bytes.
  void start(const BatchHeader& header, std::span<const char> batch,
             std::size_t decompression_limit = default_decompression_limit);

  // Fills `into` from the front; returns how many records were decoded. 0: no more records in this batch, or a fault. Records
  // decoded before a fault are given, by this call or earlier ones; so look at fault() after the last record too.
  std::size_t decode(std::span<Record> into);

  // Why decoding stopped before the last record (also a wrong record count or bytes left over), empty if it did not.
  const std::string& fault() const { return fault_; }
  // The offset of the first record that could not be decoded, or would have, were there no holes.
  Offset fault_offset() const { return header_.base_offset + (last_delta_ + std::int64_t{1}); }

 private:
  const char* decode_record(const char*& position, Record& record);

  BatchHeader header_;
  std::vector<char> decompressed_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::int32_t left_ = 0;
  std::int32_t last_delta_ = -1;  // of the record decoded last
  std::uint64_t time_base_ = 0;   // a record's timestamp is time_base_ + (its delta & time_mask_)
  std::uint64_t time_mask_ = 0;
  std::string fault_;
};

}  // namespace partlog::format

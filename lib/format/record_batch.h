// Record batches of message format v2 (magic 2) as Kafka documents them ("Record Batch" in the Kafka documentation; KIP-98): the
// header, a builder and a decoder. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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
class BatchBuilder {
 public:
  // No batch whose stored size exceeds max_batch_bytes is built. (Kafka's max.message.bytes counts the whole batch as stored;
  // with compression the records are taken up to `target_bytes` uncompressed, and a finish() that comes out larger than
  // max_batch_bytes says so.)
  explicit BatchBuilder(CompressionSettings settings = {}) : settings_(settings) {}

  // The exact number of bytes by which `record` would lengthen the uncompressed batch.
  std::size_t size_of(const Record& record) const;
  // Adds a copy. record.timestamp is taken as it is. The hot path of a producer: no allocation once the buffer has grown.
  void add(const Record& record);
  bool empty() const { return count_ == 0; }
  std::int32_t count() const { return count_; }
  // Bytes of the batch so far, header included, before compression.
  std::size_t size() const;
  Timestamp max_timestamp() const { return max_timestamp_; }

  // The finished batch with base offset 0, leader epoch 0 and its checksum; valid until the next add or clear. The records stay
  // until clear().
  std::span<char> finish();
  void clear();  // keeps the buffer
  // Gives memory back.
  void release();

 private:
  CompressionSettings settings_;
  std::vector<char> buffer_;  // header, then records; grown by hand so that add() need not initialise bytes
  std::size_t used_ = batch_header_size;
  std::vector<char> compressed_;
  std::int32_t count_ = 0;
  Timestamp base_timestamp_;
  Timestamp max_timestamp_ = no_timestamp;
};

// Decodes the records of one batch whose header has no fault and whose checksum matches. Every length is checked: a malformed
// record is a fault, never an access outside the batch. The hot path of a consumer.
class RecordDecoder {
 public:
  // `batch` must outlive the decoding (records point into it when it is not compressed). Decompresses if need be into a buffer
  // kept for reuse, never more than `decompression_limit` bytes.
  void start(const BatchHeader& header, std::span<const char> batch,
             std::size_t decompression_limit = default_decompression_limit);

  // Fills `into` from the front; returns how many records were decoded. 0: no more records in this batch, or a fault.
  std::size_t decode(std::span<Record> into);

  // Why decoding stopped before the last record (also a wrong record count or bytes left over), empty if it did not.
  // `fault_offset` is the offset of the first record that could not be decoded.
  const std::string& fault() const { return fault_; }

 private:
  BatchHeader header_;
  std::vector<char> decompressed_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  std::int32_t left_ = 0;
  std::string fault_;
};

}  // namespace partlog::format

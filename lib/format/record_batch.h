// Record batches of message format v2 (magic 2) as Kafka documents them ("Record Batch" in the Kafka documentation; KIP-98): a
// builder; and a decoder of batches of every format. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/copy_bytes.h"
#include "base/raw_buffer.h"
#include "base/varint.h"
#include "format/batch_header.h"
#include "format/message_set.h"
#include "partlog/record.h"
#include "partlog/types.h"

namespace partlog::format {

// A whole batch, of which large parts may lie elsewhere.
struct BatchBytes {
  BatchBytes() = default;
  BatchBytes(std::span<char> whole) : front(whole) {}

  std::size_t size() const;

  std::span<char> front;  // begins with the whole header
  std::vector<std::span<const char>> rest;
};

// Sets base offset and leader epoch of a batch: the 12 bytes outside its checksum.
void set_offset_and_epoch(const BatchBytes& batch, Offset base_offset, std::int32_t leader_epoch);

// Turns a built batch into one with append-time stamps: attribute bit, max_timestamp, checksum.
void set_log_append_time(const BatchBytes& batch, Timestamp now);

struct CompressionSettings {
  Compression compression = Compression::none;
  std::optional<int> level;  // nullopt: the codec's default
};

// Collects records and turns them into one batch. Not thread safe. Memory: the largest batch built so far, twice with
// compression, up to some 16 MiB of it kept for the next.
//
// Keeping to Kafka's max.message.bytes, which counts the whole batch as stored, is the caller's: add_within() (or size() plus
// size_of()) where the batch is not compressed, else the size of what finish() returns.
class BatchBuilder {
  static constexpr std::size_t max_batch_size = 0x7fffffff;
  // All that a record takes but key, value and headers: length, attributes, two deltas, two lengths, number of headers.
  static constexpr std::size_t max_overhead = max_varint32_size + 1 + max_varint64_size + 4 * max_varint32_size;

 public:
  // What size() may come to: 2^31 - 1, as the format has it, less what the estimate of a record's size may be too high.
  static constexpr std::size_t most_bytes = max_batch_size - max_overhead;
  // The largest size() of a batch that readers unpack when it is compressed.
  static constexpr std::size_t most_unpacked_bytes = batch_header_size + default_decompression_limit;

  explicit BatchBuilder(CompressionSettings settings = {}) : settings_(settings) {}

  // What records with no_timestamp get instead; no_timestamp itself at first.
  void set_default_timestamp(Timestamp time) { default_timestamp_ = time; }

  // The exact number of bytes by which `record` would lengthen the uncompressed batch.
  std::size_t size_of(const Record& record) const {
    const std::size_t body = body_size(record);
    return varint_size(static_cast<std::int64_t>(body)) + body;
  }
  // Adds a copy. The hot path of a producer: no allocation once the buffer has grown. size() must not come out larger than
  // most_bytes (checked, where it would come to 2 GiB), nor the records be more than 2^31 - 1.
  void add(const Record& record);
  // Adds it unless size() would come out larger than `limit`; returns whether. Cheaper than size_of() and add().
  bool add_within(const Record& record, std::size_t limit);
  // Adds records from the front as long as size() does not come out larger than `limit`; returns how many. The cheapest way.
  std::size_t add_run(std::span<const Record> records, std::size_t limit);
  // Adds the first and only record of a batch; its large parts are not copied, and must stay as long as what
  // finish_in_pieces() returns is used.
  void add_only(const Record& record);
  bool empty() const { return count_ == 0; }
  std::int32_t count() const { return count_; }
  // Bytes of the batch so far, header included, before compression.
  std::size_t size() const { return used_ + elsewhere_bytes_; }
  Timestamp max_timestamp() const { return max_timestamp_; }

  // The finished batch with base offset 0, leader epoch 0 and its checksum; valid until the next add or clear. The records stay
  // until clear(). There must be one at least. Where compression makes it larger than
  // `max_size` it is left out, if that helps; and always where size() is over most_unpacked_bytes.
  BatchBytes finish_in_pieces(std::size_t max_size = max_batch_size);
  // The same in one piece, for a batch that add_only() was not used for.
  std::span<char> finish(std::size_t max_size = max_batch_size);
  void clear();  // keeps the buffer
  // Clears, and lays the next batch out for being written at this position of a file; a wrong guess only costs time.
  void clear_for(std::int64_t position);
  // Gives memory back. Clears, too.
  void release();

 private:
  static constexpr std::size_t min_body_overhead = 6;
  // With so many bytes of key, value and headers the length is a varint of one byte (up to 63) or two (64 to 8191) whatever the
  // rest is.
  static constexpr std::size_t most_one_byte = 63 - (max_overhead - max_varint32_size);
  static constexpr std::size_t least_two_bytes = 64 - min_body_overhead;
  static constexpr std::size_t most_two_bytes = 8191 - max_overhead;

  static std::size_t payload_size(const Record& record) { return record.key.size() + record.value.size() + record.headers.size; }
  static std::uint64_t zigzagged_length(Bytes bytes) {
    return bytes.is_null() ? 1 : 2 * static_cast<std::uint64_t>(bytes.size());  // null is -1
  }
  // Modulo 2^64, as the reader adds it.
  std::uint64_t zigzagged_time(Timestamp time) const {
    const std::int64_t base = count_ == 0 ? time.value : base_timestamp_.value;
    return zigzag(static_cast<std::int64_t>(static_cast<std::uint64_t>(time.value) - static_cast<std::uint64_t>(base)));
  }
  Timestamp time_of(const Record& record) const {
    return record.timestamp == no_timestamp ? default_timestamp_ : record.timestamp;
  }
  // What the length in front of a record counts.
  std::size_t body_size(const Record& record) const {
    return 1 + zigzagged_size(zigzagged_time(time_of(record))) + varint_size(count_) +
           zigzagged_size(zigzagged_length(record.key)) + zigzagged_size(zigzagged_length(record.value)) +
           varint_size(record.headers.count) + payload_size(record);
  }
  static char* put_copy(char* to, const char* bytes, std::size_t size) {
    copy_bytes(to, bytes, size);
    return to + size;
  }
  static bool is_plain(const Record& record);
  std::size_t add_plain_run(std::span<const Record> records, std::size_t limit);
  template <class Put>
  char* write_body(char* to, const Record& record, Put put);
  void add_with_any_length(const Record& record);
  void grow(std::size_t room);
  void write_header(const BatchBytes& batch, Compression compression) const;
  BatchBytes pieces();

  // Bytes that were not copied, and before what position of the buffer they belong.
  struct Elsewhere {
    std::size_t before;
    std::span<const char> bytes;
  };

  CompressionSettings settings_;
  Timestamp default_timestamp_ = no_timestamp;
  RawBuffer buffer_;  // the header's place, then records
  std::size_t used_ = batch_header_size;
  std::vector<Elsewhere> elsewhere_;
  std::size_t elsewhere_bytes_ = 0;
  RawBuffer compressed_;
  std::int32_t count_ = 0;
  Timestamp base_timestamp_;
  Timestamp max_timestamp_ = no_timestamp;
};

inline void BatchBuilder::add(const Record& record) {
  const std::size_t payload = payload_size(record);
  if (used_ + payload + max_overhead > buffer_.capacity()) grow(payload + max_overhead);
  std::size_t length_size = 1;
  if (payload > most_one_byte) {
    if (payload < least_two_bytes || payload > most_two_bytes) return add_with_any_length(record);
    length_size = 2;
  }
  // Such a length, as nearly every record has, is filled in once the record is written.
  char* const start = buffer_.data() + used_;
  char* const body = start + length_size;
  char* const end = write_body(body, record, put_copy);
  write_zigzagged(start, 2 * static_cast<std::uint64_t>(end - body));
  used_ += static_cast<std::size_t>(end - start);
}

inline bool BatchBuilder::add_within(const Record& record, std::size_t limit) {
  if (used_ + payload_size(record) + max_overhead > limit && used_ + size_of(record) > limit) return false;
  add(record);
  return true;
}

// Everything but the length; counts the record. `put` puts bytes in at a place and returns where the next ones go.
template <class Put>
inline char* BatchBuilder::write_body(char* to, const Record& record, Put put) {
  const Timestamp timestamp = time_of(record);
  const std::uint64_t time = zigzagged_time(timestamp);
  const std::int32_t count = count_;
  if (count == 0) base_timestamp_ = timestamp;
  if (count == 0 || timestamp > max_timestamp_) max_timestamp_ = timestamp;
  count_ = count + 1;
  *to++ = 0;  // attributes
  to = write_zigzagged(to, time);
  to = write_varint(to, count);
  to = write_zigzagged(to, zigzagged_length(record.key));
  if (record.key.size() > 0) to = put(to, record.key.data(), record.key.size());
  to = write_zigzagged(to, zigzagged_length(record.value));
  to = put(to, record.value.data(), record.value.size());
  to = write_varint(to, record.headers.count);
  return record.headers.size > 0 ? put(to, record.headers.data, record.headers.size) : to;
}

// Decodes the records of one batch of any format whose header has no fault and whose checksum matches. Every length is checked,
// those of headers too: a malformed record is a fault, never an access outside the batch. The hot path of a consumer.
//
// Formats v0 and v1: see MessageSet. Format v2:
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
  // Bytes held for what was decompressed.
  std::size_t memory() const { return decompressed_.capacity() + messages_.memory(); }
  // The offset of the first record that could not be decoded, or would have, were there no holes.
  Offset fault_offset() const {
    return header_.is_message() ? messages_.fault_offset() : header_.base_offset + (last_delta_ + std::int64_t{1});
  }

 private:
  template <class Reading>
  const char* decode_body(const char* at, const char* end, Record& record);
  const char* decode_record(const char*& position, Record& record);
  std::size_t decode_messages(std::span<Record> into);

  BatchHeader header_;
  MessageSet messages_;  // formats v0 and v1
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

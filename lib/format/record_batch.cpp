#include "format/record_batch.h"

#include <algorithm>
#include <cstring>

#include "base/byte_order.h"
#include "base/check.h"
#include "base/crc32c.h"
#include "format/codec.h"

namespace partlog::format {

namespace {

constexpr std::int16_t log_append_time_bit = 8;
constexpr std::size_t most_kept = 16 << 20;       // of the memory that a large record wanted
constexpr std::size_t least_elsewhere = 1 << 20;  // of bytes that are not worth a copy

void set_checksum(const BatchBytes& batch) {
  auto crc = crc32c(batch.front.subspan(field::attributes));
  for (const auto& piece : batch.rest) crc = crc32c_extend(crc, piece);
  store_big_endian(batch.front.data() + field::crc, crc);
}

}  // namespace

std::size_t BatchBytes::size() const {
  std::size_t size = front.size();
  for (const auto& piece : rest) size += piece.size();
  return size;
}

void set_offset_and_epoch(const BatchBytes& batch, Offset base_offset, std::int32_t leader_epoch) {
  store_big_endian(batch.front.data() + field::base_offset, base_offset.value);
  store_big_endian(batch.front.data() + field::leader_epoch, leader_epoch);
}

void set_log_append_time(const BatchBytes& batch, Timestamp now) {
  char* const attributes = batch.front.data() + field::attributes;
  store_big_endian(attributes, static_cast<std::int16_t>(load_big_endian<std::int16_t>(attributes) | log_append_time_bit));
  store_big_endian(batch.front.data() + field::max_timestamp, now.value);
  set_checksum(batch);
}

// Out of line: once per doubling, not once per record. A large batch is not to be there twice while it is moved: memory for
// several times its size is asked for, which is not taken before it is used.
void BatchBuilder::grow(std::size_t room) {
  PARTLOG_CHECK(room <= max_batch_size - used_);
  constexpr std::size_t first_capacity = 4096;
  constexpr std::size_t large = 1 << 20;
  const auto capacity = buffer_.capacity();
  const auto ahead = capacity < large ? first_capacity : std::min(16 * capacity, max_batch_size);
  buffer_.grow(std::max(used_ + room, ahead));
}

void BatchBuilder::add_with_any_length(const Record& record) {
  char* const start = buffer_.data() + used_;
  char* const end = write_body(write_varint(start, static_cast<std::int64_t>(body_size(record))), record, put_copy);
  used_ += static_cast<std::size_t>(end - start);
}

void BatchBuilder::add_only(const Record& record) {
  PARTLOG_CHECK(empty());
  std::size_t copied = max_overhead;
  for (const auto size : {record.key.size(), record.value.size(), std::size_t{record.headers.size}}) {
    if (size < least_elsewhere) copied += size;
  }
  if (used_ + copied > buffer_.capacity()) grow(copied);
  char* const start = buffer_.data() + used_;
  char* const body = write_varint(start, static_cast<std::int64_t>(body_size(record)));
  char* const end = write_body(body, record, [this](char* to, const char* bytes, std::size_t size) {
    if (size < least_elsewhere) return put_copy(to, bytes, size);
    elsewhere_.push_back({static_cast<std::size_t>(to - buffer_.data()), {bytes, size}});
    elsewhere_bytes_ += size;
    return to;
  });
  used_ += static_cast<std::size_t>(end - start);
}

void BatchBuilder::write_header(const BatchBytes& bytes, Compression compression) const {
  const auto size = bytes.size();
  PARTLOG_CHECK(size <= max_batch_size);
  char* const batch = bytes.front.data();
  store_big_endian(batch + field::base_offset, std::int64_t{0});
  store_big_endian(batch + field::batch_length, static_cast<std::int32_t>(size - batch_prefix_size));
  store_big_endian(batch + field::leader_epoch, std::int32_t{0});
  batch[field::magic] = 2;
  store_big_endian(batch + field::attributes, static_cast<std::int16_t>(compression));
  store_big_endian(batch + field::last_offset_delta, count_ - 1);
  store_big_endian(batch + field::base_timestamp, base_timestamp_.value);
  store_big_endian(batch + field::max_timestamp, max_timestamp_.value);
  store_big_endian(batch + field::producer_id, std::int64_t{-1});
  store_big_endian(batch + field::producer_epoch, std::int16_t{-1});
  store_big_endian(batch + field::base_sequence, std::int32_t{-1});
  store_big_endian(batch + field::record_count, count_);
  set_checksum(bytes);
}

// A value and nothing else, of a size that makes the record's length a varint of two bytes.
bool BatchBuilder::is_plain(const Record& record) {
  const auto size = record.value.size();
  return record.key.is_null() && record.headers.count == 0 && record.timestamp == no_timestamp && size >= least_two_bytes &&
         size <= most_two_bytes;
}

// As add(), for plain records, with everything that changes in local variables: a store through char* makes the compiler load
// every member anew.
std::size_t BatchBuilder::add_plain_run(std::span<const Record> records, std::size_t limit) {
  char time[max_varint64_size];
  const auto time_size = static_cast<std::size_t>(write_zigzagged(time, zigzagged_time(default_timestamp_)) - time);
  const char* const end = buffer_.data() + std::min(limit, buffer_.capacity());
  char* to = buffer_.data() + used_;
  std::int32_t count = count_;
  std::size_t added = 0;
  for (; added < records.size() && is_plain(records[added]); ++added) {
    const Bytes value = records[added].value;
    if (end - to < static_cast<std::ptrdiff_t>(value.size() + max_overhead)) break;  // `end` may lie before `to`
    char* const body = to + 2;
    char* at = body;
    *at++ = 0;  // attributes
    std::memcpy(at, time, time_size);
    at = write_varint(at + time_size, count++);
    at = write_zigzagged(at, 1);  // no key
    at = write_zigzagged(at, zigzagged_length(value));
    copy_bytes(at, value.data(), value.size());
    at += value.size();
    *at++ = 0;  // no headers
    write_zigzagged(to, 2 * static_cast<std::uint64_t>(at - body));
    to = at;
  }
  if (added == 0) return 0;
  if (count_ == 0) base_timestamp_ = default_timestamp_;
  max_timestamp_ = count_ == 0 ? default_timestamp_ : std::max(max_timestamp_, default_timestamp_);
  count_ = count;
  used_ = static_cast<std::size_t>(to - buffer_.data());
  return added;
}

std::size_t BatchBuilder::add_run(std::span<const Record> records, std::size_t limit) {
  std::size_t added = 0;
  while (added < records.size()) {
    if (const auto plain = buffer_.capacity() > 0 ? add_plain_run(records.subspan(added), limit) : 0) {
      added += plain;
    } else if (add_within(records[added], limit)) {
      ++added;
    } else {
      break;
    }
  }
  return added;
}

BatchBytes BatchBuilder::pieces() {
  BatchBytes batch(std::span(buffer_.data(), elsewhere_.empty() ? used_ : elsewhere_[0].before));
  for (std::size_t i = 0; i < elsewhere_.size(); ++i) {
    const auto begin = elsewhere_[i].before;
    const auto end = i + 1 < elsewhere_.size() ? elsewhere_[i + 1].before : used_;
    batch.rest.push_back(elsewhere_[i].bytes);
    batch.rest.emplace_back(buffer_.data() + begin, end - begin);
  }
  return batch;
}

BatchBytes BatchBuilder::finish_in_pieces(std::size_t max_size) {
  PARTLOG_CHECK(count_ > 0);
  auto batch = pieces();
  auto compression = size() <= most_unpacked_bytes ? settings_.compression : Compression::none;
  if (compression != Compression::none) {
    std::vector<std::span<const char>> records{batch.front.subspan(batch_header_size)};
    records.insert(records.end(), batch.rest.begin(), batch.rest.end());
    const auto compressed = compress(compression, settings_.level, records, compressed_, batch_header_size);
    if (compressed <= max_size || size() > max_size) {
      batch = std::span(compressed_.data(), compressed);
    } else {
      compression = Compression::none;
    }
  }
  write_header(batch, compression);
  return batch;
}

std::span<char> BatchBuilder::finish(std::size_t max_size) {
  PARTLOG_CHECK(elsewhere_.empty());
  return finish_in_pieces(max_size).front;
}

void BatchBuilder::clear() {
  used_ = batch_header_size;
  elsewhere_.clear();
  elsewhere_bytes_ = 0;
  count_ = 0;
  max_timestamp_ = no_timestamp;
}

void BatchBuilder::clear_for(std::int64_t position) {
  if (size() > most_kept) release();
  clear();
  buffer_.align_with(position);
}

void BatchBuilder::release() {
  clear();
  buffer_.release();
  compressed_.release();
}

namespace {

// Whether `count` headers fill exactly [at, end).
bool headers_are_valid(const char* at, const char* end, std::int32_t count) {
  for (; count > 0; --count) {
    std::int32_t size;
    at = read_varint32(at, end, size);
    if (at == nullptr || size < 0 || size > end - at) return false;
    at = read_varint32(at + size, end, size);
    if (at == nullptr || size > end - at) return false;
    if (size > 0) at += size;
  }
  return at == end;
}

// Where every varint is held against the end of its record.
struct Careful {
  static const char* varint32(const char* at, const char* end, std::int32_t& value) { return read_varint32(at, end, value); }
  static const char* varint64(const char* at, const char* end, std::int64_t& value) { return read_varint64(at, end, value); }
};

// Where a record is far enough from the end of the batch. A short varint may then reach beyond its record; nothing is given from
// there, since whoever is beyond the end does not meet it any more.
struct InTheMiddle {
  static const char* varint32(const char* at, const char* end, std::int32_t& value) {
    const char* behind = read_short_varint(at, value);
    return behind != nullptr ? behind : read_varint32_slow(at, end, value);
  }
  static const char* varint64(const char* at, const char* end, std::int64_t& value) {
    std::int32_t small = 0;
    const char* behind = read_short_varint(at, small);
    value = small;
    return behind != nullptr ? behind : read_varint64_slow(at, end, value);
  }
};
// Short varints in a row without a check between them: two deltas, two lengths, the number of headers.
constexpr std::ptrdiff_t middle_margin = std::ptrdiff_t{2} * 5;

// A length and that many bytes, or null; nullptr if they do not fit.
template <class Reading>
inline const char* read_bytes(const char* at, const char* end, Bytes& bytes) {
  std::int32_t size;
  at = Reading::varint32(at, end, size);
  if (at == nullptr || size > end - at) return nullptr;
  if (size < 0) {
    bytes = {};
    return at;
  }
  bytes = {at, static_cast<std::size_t>(size)};
  return at + size;
}

}  // namespace

void RecordDecoder::start(const BatchHeader& header, std::span<const char> batch, std::size_t decompression_limit) {
  header_ = header;
  fault_.clear();
  if (header.is_message()) {
    messages_.open(header, batch, decompression_limit);
    fault_ = messages_.fault();
    return;
  }
  left_ = header.record_count;
  last_delta_ = -1;
  const bool append_time = header.timestamp_type() == TimestampType::log_append_time;
  time_base_ = static_cast<std::uint64_t>(append_time ? header.max_timestamp.value : header.base_timestamp.value);
  time_mask_ = append_time ? 0 : ~std::uint64_t{0};

  std::span<const char> records = batch.first(static_cast<std::size_t>(header.size())).subspan(batch_header_size);
  if (header.compression() != Compression::none && !(left_ == 0 && records.empty())) {
    fault_ = decompress(header.compression(), records, decompression_limit, decompressed_);
    records = fault_.empty() ? std::span<const char>(decompressed_) : std::span<const char>();
  }
  at_ = records.data();
  end_ = at_ + records.size();
  if (fault_.empty() && left_ == 0 && at_ != end_) fault_ = "there are bytes in a batch without records";
}

// Decodes the record between its length and `end`; returns what is wrong, nullptr if nothing is.
template <class Reading>
inline const char* RecordDecoder::decode_body(const char* at, const char* end, Record& record) {
  ++at;  // attributes
  std::int64_t time_delta;
  std::int32_t delta;
  if ((at = Reading::varint64(at, end, time_delta)) == nullptr) return "the timestamp of a record is malformed";
  if ((at = Reading::varint32(at, end, delta)) == nullptr) return "the offset of a record is malformed";
  if (delta <= last_delta_ || delta > header_.last_offset_delta) return "the offset of a record is out of order";
  if ((at = read_bytes<Reading>(at, end, record.key)) == nullptr) return "the key of a record reaches beyond its end";
  if ((at = read_bytes<Reading>(at, end, record.value)) == nullptr) return "the value of a record reaches beyond its end";

  std::int32_t header_count;
  if ((at = Reading::varint32(at, end, header_count)) == nullptr) return "the header count of a record is malformed";
  if (header_count == 0 ? at != end : (header_count < 0 || !headers_are_valid(at, end, header_count))) {
    return "the headers of a record do not fill its length";
  }
  record.headers = {at, static_cast<std::uint32_t>(end - at), static_cast<std::uint32_t>(header_count)};
  record.timestamp.value = static_cast<std::int64_t>(time_base_ + (static_cast<std::uint64_t>(time_delta) & time_mask_));
  record.offset = header_.base_offset + delta;
  last_delta_ = delta;
  return nullptr;
}

// Decodes the record at `position` and moves that behind it.
inline const char* RecordDecoder::decode_record(const char*& position, Record& record) {
  std::int32_t length;
  const char* const at = read_varint32(position, end_, length);
  if (at == nullptr) return "the batch ends before its last record";
  if (length < min_record_size - 1) return "a record is shorter than it can be";
  if (length > end_ - at) return "a record reaches beyond the end of the batch";
  const char* const end = at + length;
  position = end;
  return end_ - end >= middle_margin ? decode_body<InTheMiddle>(at, end, record) : decode_body<Careful>(at, end, record);
}

std::size_t RecordDecoder::decode_messages(std::span<Record> into) {
  const auto done = messages_.decode(into);
  if (fault_.empty()) fault_ = messages_.fault();
  return done;
}

std::size_t RecordDecoder::decode(std::span<Record> into) {
  if (header_.is_message()) return decode_messages(into);
  if (left_ == 0 || !fault_.empty()) return 0;
  const std::size_t wanted = std::min(into.size(), static_cast<std::size_t>(left_));
  const char* at = at_;
  const char* fault = nullptr;
  std::size_t done = 0;
  while (done < wanted && (fault = decode_record(at, into[done])) == nullptr) ++done;
  at_ = at;
  left_ -= static_cast<std::int32_t>(done);
  if (fault == nullptr && left_ == 0 && at_ != end_) fault = "there are bytes behind the last record of a batch";
  if (fault != nullptr) fault_ = fault;
  return done;
}

}  // namespace partlog::format

#include "format/batch_header.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "base/byte_order.h"
#include "base/crc32.h"
#include "base/crc32c.h"

namespace partlog::format {

namespace {

constexpr auto min_batch_length = static_cast<std::int32_t>(batch_header_size - batch_prefix_size);
constexpr std::int16_t codec_bits = 7;
constexpr std::int16_t timestamp_type_bit = 8;

BatchHeader read_message_header(const char* p) {
  BatchHeader h;
  h.base_offset.value = load_big_endian<std::int64_t>(p + message_field::offset);
  h.batch_length = load_big_endian<std::int32_t>(p + message_field::size);
  h.crc = load_big_endian<std::uint32_t>(p + message_field::crc);
  h.magic = static_cast<std::int8_t>(p[message_field::magic]);
  const auto meaning = h.magic == 0 ? codec_bits : static_cast<std::int16_t>(codec_bits | timestamp_type_bit);
  h.attributes = static_cast<std::int16_t>(p[message_field::attributes] & meaning);
  h.base_timestamp = h.magic == 0 ? no_timestamp : Timestamp{load_big_endian<std::int64_t>(p + message_field::timestamp)};
  h.max_timestamp = h.base_timestamp;
  h.record_count = 1;
  return h;
}

const char* message_header_fault(const BatchHeader& header) {
  const auto fixed = header_size_of(static_cast<char>(header.magic)) + 2 * sizeof(std::int32_t);
  if (header.size() < static_cast<std::int64_t>(fixed)) return "the message is shorter than it can be";
  if (header.base_offset.value < 0) return "the offset is negative";
  if (header.base_offset.value == std::numeric_limits<std::int64_t>::max()) return "the offset is out of range";
  if (header.compression() > Compression::lz4) return "the compression codec is unknown";
  return nullptr;
}

}  // namespace

BatchHeader read_batch_header(std::span<const char> bytes) {
  const char* p = bytes.data();
  if (p[field::magic] == 0 || p[field::magic] == 1) return read_message_header(p);
  BatchHeader h;
  h.base_offset.value = load_big_endian<std::int64_t>(p + field::base_offset);
  h.batch_length = load_big_endian<std::int32_t>(p + field::batch_length);
  h.leader_epoch = load_big_endian<std::int32_t>(p + field::leader_epoch);
  h.magic = static_cast<std::int8_t>(p[field::magic]);
  h.crc = load_big_endian<std::uint32_t>(p + field::crc);
  h.attributes = load_big_endian<std::int16_t>(p + field::attributes);
  h.last_offset_delta = load_big_endian<std::int32_t>(p + field::last_offset_delta);
  h.base_timestamp.value = load_big_endian<std::int64_t>(p + field::base_timestamp);
  h.max_timestamp.value = load_big_endian<std::int64_t>(p + field::max_timestamp);
  h.producer_id = load_big_endian<std::int64_t>(p + field::producer_id);
  h.producer_epoch = load_big_endian<std::int16_t>(p + field::producer_epoch);
  h.base_sequence = load_big_endian<std::int32_t>(p + field::base_sequence);
  h.record_count = load_big_endian<std::int32_t>(p + field::record_count);
  return h;
}

std::optional<BatchHeader> read_whole_header(std::span<const char> bytes) {
  if (bytes.size() < batch_magic_end || bytes.size() < header_size_of(bytes[field::magic])) return std::nullopt;
  return read_batch_header(bytes);
}

const char* header_fault(const BatchHeader& header) {
  if (header.is_message()) return message_header_fault(header);
  if (header.magic != 2) return "the message format is unknown";
  if (header.batch_length < min_batch_length) return "the batch length is less than a header";
  if (header.base_offset.value < 0) return "the base offset is negative";
  if (header.last_offset_delta < 0) return "the last offset delta is negative";
  if (header.base_offset.value > std::numeric_limits<std::int64_t>::max() - 1 - header.last_offset_delta) {
    return "the last offset is out of range";
  }
  if (header.compression() > Compression::zstd) return "the compression codec is unknown";
  if (header.record_count < 0) return "the record count is negative";
  if (header.record_count > header.last_offset_delta + std::int64_t{1}) return "there are more records than offsets";
  if (header.compression() == Compression::none &&
      header.record_count > (header.batch_length - min_batch_length) / min_record_size) {
    return "there are more records than the batch has room for";
  }
  return nullptr;
}

bool is_one_bit_off(Offset a, Offset b) { return std::has_single_bit(static_cast<std::uint64_t>(a.value ^ b.value)); }

std::size_t checksum_start(const BatchHeader& header) { return header.is_message() ? message_field::magic : field::attributes; }

std::uint32_t extend_checksum(const BatchHeader& header, std::uint32_t sum, std::span<const char> bytes) {
  return header.is_message() ? crc32_extend(sum, bytes) : crc32c_extend(sum, bytes);
}

bool checksum_matches(const BatchHeader& header, std::span<const char> batch) {
  const auto covered = batch.first(static_cast<std::size_t>(header.size())).subspan(checksum_start(header));
  return extend_checksum(header, 0, covered) == header.crc;
}

std::optional<FlippedBit> flipped_bit_of_marker(std::span<const char> batch) {
  if (batch.size() < batch_header_size || batch.size() > largest_marker) return std::nullopt;
  std::vector<char> bytes(batch.begin(), batch.end());
  constexpr std::size_t sign_of_offset = 7;
  for (auto bit = sign_of_offset; bit < 8 * bytes.size(); bit = std::max(bit + 1, 8 * field::batch_length)) {
    auto& byte = bytes[bit / 8];
    const auto as_it_is = byte;
    byte = static_cast<char>(byte ^ 1 << bit % 8);
    const auto header = read_batch_header(bytes);
    const bool is_marker = header.magic == 2 && header.is_control() && header.is_transactional() && !header_fault(header);
    if (is_marker && header.size() == std::ssize(bytes) && checksum_matches(header, bytes)) return FlippedBit{bit, header};
    byte = as_it_is;
  }
  return std::nullopt;
}

}  // namespace partlog::format

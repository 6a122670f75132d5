#include "format/message_set.h"

#include <limits>

#include "base/byte_order.h"
#include "format/codec.h"

namespace partlog::format {

namespace {

constexpr auto prefix = static_cast<std::int64_t>(batch_prefix_size);

std::int64_t offset_of(std::span<const char> message) {
  return load_big_endian<std::int64_t>(message.data() + message_field::offset);
}

// Takes a length and so many bytes, or null, from the front.
bool take_bytes(std::span<const char>& from, Bytes& bytes) {
  if (from.size() < sizeof(std::int32_t)) return false;
  const auto size = load_big_endian<std::int32_t>(from.data());
  from = from.subspan(sizeof(size));
  bytes = {};
  if (size < 0) return true;
  if (static_cast<std::size_t>(size) > from.size()) return false;
  bytes = {from.data(), static_cast<std::size_t>(size)};
  from = from.subspan(bytes.size());
  return true;
}

// Key and value of a whole message; what is wrong, nullptr if nothing is.
const char* read_key_and_value(std::span<const char> message, Record& record) {
  auto rest = message.subspan(header_size_of(message[message_field::magic]));
  if (!take_bytes(rest, record.key)) return "the key of a message reaches beyond its end";
  if (!take_bytes(rest, record.value)) return "the value of a message reaches beyond its end";
  return rest.empty() ? nullptr : "key and value of a message do not fill it";
}

}  // namespace

void MessageSet::open(const BatchHeader& header, std::span<const char> message, std::size_t decompression_limit) {
  header_ = header;
  fault_.clear();
  first_offset_ = 0;
  left_ = message.first(static_cast<std::size_t>(header.size()));
  if (header.is_wrapper()) open_wrapper(left_, decompression_limit);
}

void MessageSet::open_wrapper(std::span<const char> message, std::size_t decompression_limit) {
  left_ = {};
  Record wrapper;
  if (const char* fault = read_key_and_value(message, wrapper)) {
    fault_ = fault;
  } else if (wrapper.value.is_null()) {
    fault_ = "a compressed message has no value";
  } else {
    const auto lz4 = header_.magic == 0 ? Lz4HeaderChecksum::ignored : Lz4HeaderChecksum::checked;
    const std::span<const char> value(wrapper.value.data(), wrapper.value.size());
    fault_ = decompress(header_.compression(), value, decompression_limit, decompressed_, lz4);
    if (!fault_.empty()) return;
    if (const char* fault_inside = look_through()) fault_ = fault_inside;
  }
}

// Goes from message to message, for the offsets.
const char* MessageSet::look_through() {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  std::span<const char> rest = decompressed_;
  std::int64_t first = -1;
  std::int64_t last = -1;
  std::int64_t count = 0;
  while (!rest.empty()) {
    if (rest.size() < min_message_size) return "the last message of a compressed set is cut off";
    const auto size = load_big_endian<std::int32_t>(rest.data() + message_field::size);
    if (size < static_cast<std::int64_t>(min_message_size) - prefix)
      return "a message in a compressed set is shorter than it can be";
    if (prefix + size > static_cast<std::int64_t>(rest.size())) return "the last message of a compressed set is cut off";
    const auto offset = offset_of(rest);
    if (offset <= last) return "the offset of a message in a compressed set is out of order";
    if (count == 0) first = offset;
    last = offset;
    ++count;
    rest = rest.subspan(static_cast<std::size_t>(prefix + size));
  }
  if (count == 0) return "a compressed set has no messages";
  const auto own = header_.last_offset().value;
  if (header_.magic == 0 ? last != own : last > own) return "the offset of a compressed set is not that of its last message";
  if (last - first > most) return "the offsets of a compressed set are too far apart";
  first_offset_ = own - last;
  left_ = decompressed_;
  header_.base_offset.value = first_offset_ + first;
  header_.last_offset_delta = static_cast<std::int32_t>(last - first);
  header_.record_count = static_cast<std::int32_t>(count);
  return nullptr;
}

std::size_t MessageSet::decode(std::span<Record> into) {
  std::size_t done = 0;
  while (done < into.size() && !left_.empty() && fault_.empty()) {
    if (const char* fault = decode_message(into[done])) {
      fault_ = fault;
    } else {
      ++done;
    }
  }
  return done;
}

const char* MessageSet::decode_message(Record& record) {
  const auto message = left_.first(batch_prefix_size +
                                   static_cast<std::size_t>(load_big_endian<std::int32_t>(left_.data() + message_field::size)));
  const auto header = read_whole_header(message);
  if (!header || !header->is_message()) return "a message in a compressed set has an unknown format";
  if (header_.is_wrapper()) {
    if (header_fault(*header) != nullptr) return "a message in a compressed set is malformed";
    if (header->is_wrapper()) return "a compressed message stands in a compressed set";
    if (!checksum_matches(*header, message)) return "the checksum of a message in a compressed set is wrong";
  }
  if (const char* fault = read_key_and_value(message, record)) return fault;
  const bool stamped_by_wrapper = header->magic != 0 && header_.timestamp_type() == TimestampType::log_append_time;
  record.timestamp = stamped_by_wrapper ? header_.max_timestamp : header->max_timestamp;
  record.headers = {};
  record.offset.value = first_offset_ + header->base_offset.value;
  left_ = left_.subspan(message.size());
  return nullptr;
}

Offset MessageSet::fault_offset() const { return left_.empty() ? header_.base_offset : Offset{first_offset_ + offset_of(left_)}; }

void MessageSet::release() {
  left_ = {};
  std::vector<char>().swap(decompressed_);
}

}  // namespace partlog::format

#include "partlog/coordinator_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <span>

#include "base/byte_order.h"

namespace partlog {

namespace {

// A message as text, after Kafka's message schemas (group-coordinator and transaction-coordinator, resources/common/message):
// fields as name:type, separated by blanks. Types: b int8, h int16, i int32, l int64, s string, S string or null, y bytes, Y
// bytes or null, d UUID, p the group's protocol type, U and A its members' subscriptions and assignments, [type] array, ?[type]
// array or null, {fields} structure, *{fields} structure or null. "~" at the front: a flexible version (KIP-482), where lengths
// are unsigned varints, one more than they say, and tagged fields end each structure: <number name:type ...>, of a structure
// behind all others.
struct Version {
  int first;
  int last;
  std::string_view schema;
};

struct Message {
  int first_type;
  int last_type;
  std::string_view key;
  std::span<const Version> versions;
};

constexpr std::array offset_commit = {
    Version{0, 0, "offset:l metadata:s commitTimestamp:l"},
    Version{1, 1, "offset:l metadata:s commitTimestamp:l expireTimestamp:l"},
    Version{2, 2, "offset:l metadata:s commitTimestamp:l"},
    Version{3, 3, "offset:l leaderEpoch:i metadata:s commitTimestamp:l"},
    Version{4, 4, "~offset:l leaderEpoch:i metadata:s commitTimestamp:l <0 topicId:d>"},
};
constexpr std::array group_metadata = {
    Version{0, 0,
            "protocolType:p generation:i protocol:S leader:S members:[{memberId:s clientId:s clientHost:s sessionTimeout:i "
            "subscription:U assignment:A}]"},
    Version{1, 1,
            "protocolType:p generation:i protocol:S leader:S members:[{memberId:s clientId:s clientHost:s rebalanceTimeout:i "
            "sessionTimeout:i subscription:U assignment:A}]"},
    Version{
        2, 2,
        "protocolType:p generation:i protocol:S leader:S currentStateTimestamp:l members:[{memberId:s clientId:s clientHost:s "
        "rebalanceTimeout:i sessionTimeout:i subscription:U assignment:A}]"},
    Version{3, 3,
            "protocolType:p generation:i protocol:S leader:S currentStateTimestamp:l members:[{memberId:s groupInstanceId:S "
            "clientId:s clientHost:s rebalanceTimeout:i sessionTimeout:i subscription:U assignment:A}]"},
    Version{4, 4,
            "~protocolType:p generation:i protocol:S leader:S currentStateTimestamp:l members:[{memberId:s groupInstanceId:S "
            "clientId:s clientHost:s rebalanceTimeout:i sessionTimeout:i subscription:U assignment:A}]"},
};
// KIP-848.
constexpr std::array consumer_group = {Version{0, 0, "~epoch:i <0 metadataHash:l>"}};
constexpr std::array consumer_partitions = {
    Version{0, 0, "~topics:[{topicId:d topicName:s numPartitions:i partitionMetadata:[{partition:i racks:[s]}]}]"}};
constexpr std::array consumer_member = {
    Version{0, 0,
            "~instanceId:S rackId:S clientId:s clientHost:s subscribedTopicNames:[s] subscribedTopicRegex:S rebalanceTimeoutMs:i "
            "serverAssignor:S <0 classicMemberMetadata:*{sessionTimeoutMs:i supportedProtocols:[{name:s metadata:y}]}>"}};
constexpr std::array consumer_assignment = {Version{
    0, 0,
    "~memberEpoch:i previousMemberEpoch:i state:b assignedPartitions:[{topicId:d partitions:[i] <0 assignmentEpochs:?[i]>}] "
    "partitionsPendingRevocation:[{topicId:d partitions:[i] <0 assignmentEpochs:?[i]>}]"}};
constexpr std::array consumer_target = {Version{0, 0, "~assignmentEpoch:i <0 assignmentTimestamp:l>"}};
constexpr std::array consumer_target_member = {Version{0, 0, "~topicPartitions:[{topicId:d partitions:[i]}]"}};
constexpr std::array consumer_regex = {Version{0, 0, "~topics:[s] version:l timestamp:l"}};
constexpr std::array transaction_log = {
    Version{0, 0,
            "producerId:l producerEpoch:h transactionTimeoutMs:i transactionStatus:b transactionPartitions:?[{topic:s "
            "partitionIds:[i]}] transactionLastUpdateTimestampMs:l transactionStartTimestampMs:l"},
    Version{1, 1,
            "~producerId:l producerEpoch:h transactionTimeoutMs:i transactionStatus:b transactionPartitions:?[{topic:s "
            "partitionIds:[i]}] transactionLastUpdateTimestampMs:l transactionStartTimestampMs:l <0 previousProducerId:l 1 "
            "nextProducerId:l 2 clientTransactionVersion:h 3 nextProducerEpoch:h>"},
};

// Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, by version.
constexpr std::array<std::string_view, 4> subscriptions = {
    "topics:[s] userData:Y", "topics:[s] userData:Y ownedPartitions:[{topic:s partitions:[i]}]",
    "topics:[s] userData:Y ownedPartitions:[{topic:s partitions:[i]}] generationId:i",
    "topics:[s] userData:Y ownedPartitions:[{topic:s partitions:[i]}] generationId:i rackId:S"};
constexpr std::array<std::string_view, 1> assignments = {"assignedPartitions:[{topic:s partitions:[i]}] userData:Y"};

constexpr std::string_view member_key = "groupId:s memberId:s";
constexpr std::array group_messages = {
    Message{0, 1, "group:s topic:s partition:i", offset_commit},
    Message{2, 2, "group:s", group_metadata},
    Message{3, 3, "groupId:s", consumer_group},
    Message{4, 4, "groupId:s", consumer_partitions},
    Message{5, 5, member_key, consumer_member},
    Message{6, 6, "groupId:s", consumer_target},
    Message{7, 7, member_key, consumer_target_member},
    Message{8, 8, member_key, consumer_assignment},
    Message{16, 16, "groupId:s regularExpression:s", consumer_regex},
};
constexpr std::array transaction_messages = {Message{0, 0, "transactionalId:s", transaction_log}};

constexpr std::string_view base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view base64_url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr std::size_t uuid_size = 16;

void append_base64(std::string& out, std::string_view bytes, std::string_view digits, bool padded) {
  const auto byte = [&](std::size_t i) { return i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u; };
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    const std::size_t used = std::min<std::size_t>(bytes.size() - i, 3) + 1;
    for (std::size_t digit = 0; digit < 4; ++digit) {
      if (digit < used) {
        out += digits[bits >> (18 - 6 * digit) & 63];
      } else if (padded) {
        out += '=';
      }
    }
  }
}

// How long the UTF-8 character at the front is; 0: there is none.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return is_wrong ? 0 : size;
}

// Reads a message by its schema and writes JSON. Everything is bounded by the bytes there are: each element of an array takes one
// at least.
class Reader {
 public:
  Reader(std::string_view bytes, bool flexible, std::string& out) : bytes_(bytes), flexible_(flexible), out_(out) {}

  // Fields up to the end of the schema, or to its "}".
  bool structure(std::string_view& schema) {
    out_ += '{';
    bool first = true;
    while (!schema.empty() && schema[0] != '}' && schema[0] != '<') {
      if (!field(schema, first)) return false;
      first = false;
      if (!schema.empty() && schema[0] == ' ') schema.remove_prefix(1);
    }
    if (flexible_ && !tagged(schema, first)) return false;
    out_ += '}';
    return true;
  }
  bool is_at_end() const { return bytes_.empty(); }

 private:
  bool field(std::string_view& schema, bool first) {
    const auto colon = schema.find(':');
    if (!first) out_ += ',';
    out_ += '"';
    out_ += schema.substr(0, colon);
    out_ += "\":";
    schema.remove_prefix(colon + 1);
    return value(schema);
  }

  bool value(std::string_view& schema) {
    const char type = schema[0];
    if (type == '{') {
      schema.remove_prefix(1);
      if (!structure(schema)) return false;
      schema.remove_prefix(1);
      return true;
    }
    if (type == '[' || type == '?') return array(schema);
    if (type == '*') return structure_or_null(schema);
    schema.remove_prefix(1);
    switch (type) {
      case 'b':
        return number<std::int8_t>();
      case 'h':
        return number<std::int16_t>();
      case 'i':
        return number<std::int32_t>();
      case 'l':
        return number<std::int64_t>();
      case 's':
        return string(false);
      case 'S':
        return string(true);
      case 'p':
        if (!string(false)) return false;
        of_consumers_ = out_.ends_with("\"consumer\"");
        return true;
      case 'y':
        return base64_bytes(false);
      case 'Y':
        return base64_bytes(true);
      case 'U':
        return protocol_bytes(subscriptions);
      case 'A':
        return protocol_bytes(assignments);
      case 'd':
        return uuid();
      default:
        return false;
    }
  }

  // As a tagged field, where 0 stands for null; elsewhere it would be -1, but no message has one there.
  bool structure_or_null(std::string_view& schema) {
    std::uint32_t is_there = 0;
    if (!varint(is_there)) return false;
    schema.remove_prefix(1);
    if (is_there != 0) return value(schema);
    out_ += "null";
    schema.remove_prefix(1);
    schema.remove_prefix(end_of_type(schema) + 1);
    return true;
  }

  bool array(std::string_view& schema) {
    const bool may_be_null = schema[0] == '?';
    schema.remove_prefix(may_be_null ? 2 : 1);
    std::int64_t count = 0;
    if (!length<std::int32_t>(count) || (count < 0 && !may_be_null)) return false;
    if (count > static_cast<std::int64_t>(bytes_.size())) return false;
    auto element = schema;
    out_ += count < 0 ? "null" : "[";
    for (std::int64_t i = 0; i < count; ++i) {
      element = schema;
      if (i > 0) out_ += ',';
      if (!value(element)) return false;
    }
    if (count >= 0) out_ += ']';
    schema.remove_prefix(end_of_type(schema) + 1);
    return true;
  }

  // Of the type at the front of a schema.
  static std::size_t end_of_type(std::string_view schema) {
    std::size_t depth = 0;
    for (std::size_t at = 0; at < schema.size(); ++at) {
      if (schema[at] == '[' || schema[at] == '{') ++depth;
      if ((schema[at] == ']' || schema[at] == '}') && depth-- == 0) return at;
    }
    return schema.size();
  }

  // Tags that are not known are passed over, as Kafka does.
  bool tagged(std::string_view& schema, bool first) {
    std::string_view known;
    if (!schema.empty() && schema[0] == '<') {
      known = schema.substr(1, schema.find('>') - 1);
      schema.remove_prefix(known.size() + 2);
    }
    std::uint32_t count = 0;
    if (!varint(count)) return false;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint32_t tag = 0;
      std::uint32_t size = 0;
      if (!varint(tag) || !varint(size) || size > bytes_.size()) return false;
      const auto rest = bytes_.substr(size);
      bytes_ = bytes_.substr(0, size);
      if (auto named = find_tag(known, tag); !named.empty()) {
        if (!field(named, first) || !bytes_.empty()) return false;
        first = false;
      }
      bytes_ = rest;
    }
    return true;
  }

  static std::size_t end_of_field(std::string_view schema, std::size_t at) {
    for (std::size_t depth = 0; at < schema.size() && (schema[at] != ' ' || depth > 0); ++at) {
      if (schema[at] == '[' || schema[at] == '{') ++depth;
      if (schema[at] == ']' || schema[at] == '}') --depth;
    }
    return at;
  }

  static std::string_view find_tag(std::string_view known, std::uint32_t tag) {
    while (!known.empty()) {
      const auto blank = known.find(' ');
      const auto end = end_of_field(known, blank + 1);
      std::uint32_t number = 0;
      std::from_chars(known.data(), known.data() + blank, number);
      if (number == tag) return known.substr(blank + 1, end - blank - 1);
      known.remove_prefix(std::min(end + 1, known.size()));
    }
    return {};
  }

  bool varint(std::uint32_t& value) {
    value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (bytes_.empty()) return false;
      const auto byte = static_cast<unsigned char>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<std::uint32_t>(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }

  template <class Integer>
  bool take(Integer& value) {
    if (bytes_.size() < sizeof value) return false;
    if constexpr (sizeof value == 1) {
      value = static_cast<Integer>(bytes_[0]);
    } else {
      value = load_big_endian<Integer>(bytes_.data());
    }
    bytes_.remove_prefix(sizeof value);
    return true;
  }

  template <class Integer>
  bool number() {
    Integer value = 0;
    if (!take(value)) return false;
    out_ += std::to_string(value);
    return true;
  }

  // Of a string, bytes or array; -1 for null.
  template <class Integer>
  bool length(std::int64_t& value) {
    if (flexible_) {
      std::uint32_t more = 0;
      if (!varint(more)) return false;
      value = std::int64_t{more} - 1;
      return true;
    }
    Integer plain = 0;
    if (!take(plain)) return false;
    value = plain;
    return true;
  }

  template <class Integer>
  bool take_bytes(std::string_view& taken, bool& is_null) {
    std::int64_t size = 0;
    if (!length<Integer>(size) || size > static_cast<std::int64_t>(bytes_.size())) return false;
    is_null = size < 0;
    taken = bytes_.substr(0, static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    bytes_.remove_prefix(taken.size());
    return true;
  }

  bool string(bool may_be_null) {
    std::string_view text;
    bool is_null = false;
    if (!take_bytes<std::int16_t>(text, is_null) || (is_null && !may_be_null)) return false;
    if (is_null) {
      out_ += "null";
      return true;
    }
    out_ += '"';
    while (!text.empty()) {
      const auto size = character_size(text);
      if (size == 0) return false;
      character(text.substr(0, size));
      text.remove_prefix(size);
    }
    out_ += '"';
    return true;
  }

  void character(std::string_view text) {
    const auto c = static_cast<unsigned char>(text[0]);
    if (c == '"' || c == '\\') {
      out_ += '\\';
    } else if (c < 0x20) {
      constexpr std::string_view digits = "0123456789abcdef";
      out_ += "\\u00";
      out_ += digits[c >> 4];
      out_ += digits[c & 15];
      return;
    }
    out_ += text;
  }

  bool base64_bytes(bool may_be_null) {
    std::string_view bytes;
    bool is_null = false;
    if (!take_bytes<std::int32_t>(bytes, is_null) || (is_null && !may_be_null)) return false;
    is_null ? void(out_ += "null") : append_quoted(bytes);
    return true;
  }

  void append_quoted(std::string_view bytes) {
    out_ += '"';
    append_base64(out_, bytes, base64, true);
    out_ += '"';
  }

  // What consumers tell each other, if they are that: a version, and a message that is not flexible.
  bool protocol_bytes(std::span<const std::string_view> schemas) {
    std::string_view bytes;
    bool is_null = false;
    if (!take_bytes<std::int32_t>(bytes, is_null) || is_null) return false;
    const auto before = out_.size();
    std::int16_t version = -1;
    Reader inside(bytes, false, out_);
    if (of_consumers_ && inside.take(version) && version >= 0) {
      auto schema = schemas[std::min<std::size_t>(static_cast<std::size_t>(version), schemas.size() - 1)];
      if (inside.structure(schema) && inside.is_at_end()) return true;
    }
    out_.resize(before);
    append_quoted(bytes);
    return true;
  }

  bool uuid() {
    if (bytes_.size() < uuid_size) return false;
    out_ += '"';
    append_base64(out_, bytes_.substr(0, uuid_size), base64_url, false);
    out_ += '"';
    bytes_.remove_prefix(uuid_size);
    return true;
  }

  std::string_view bytes_;
  bool flexible_;
  bool of_consumers_ = false;
  std::string& out_;
};

constexpr std::size_t version_size = 2;

const Message* message_of(CoordinatorTopic topic, Bytes key) {
  if (key.size() < version_size) return nullptr;
  const int type = load_big_endian<std::int16_t>(key.data());
  const auto all = topic == CoordinatorTopic::consumer_offsets ? std::span<const Message>(group_messages)
                                                               : std::span<const Message>(transaction_messages);
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const Message& message) { return message.first_type <= type && type <= message.last_type; });
  return found == all.end() ? nullptr : &*found;
}

bool decode(std::string_view name, Bytes bytes, std::string_view schema, std::string& json) {
  const auto before = json.size();
  json += "{\"";
  json += name;
  json += "\":\"";
  json += std::to_string(load_big_endian<std::int16_t>(bytes.data()));
  json += "\",\"data\":";
  const bool flexible = schema.starts_with('~');
  if (flexible) schema.remove_prefix(1);
  Reader reader(bytes.view().substr(version_size), flexible, json);
  if (reader.structure(schema) && reader.is_at_end()) {
    json += '}';
    return true;
  }
  json.resize(before);
  return false;
}

}  // namespace

std::optional<CoordinatorTopic> coordinator_topic(std::string_view topic) {
  if (topic == "__consumer_offsets") return CoordinatorTopic::consumer_offsets;
  if (topic == "__transaction_state") return CoordinatorTopic::transaction_state;
  return std::nullopt;
}

bool decode_coordinator_key(CoordinatorTopic topic, Bytes key, std::string& json) {
  const auto* message = message_of(topic, key);
  return message != nullptr && decode("type", key, message->key, json);
}

bool decode_coordinator_value(CoordinatorTopic topic, Bytes key, Bytes value, std::string& json) {
  const auto* message = message_of(topic, key);
  if (message == nullptr || value.size() < version_size) return false;
  const int version = load_big_endian<std::int16_t>(value.data());
  for (const auto& known : message->versions) {
    if (known.first <= version && version <= known.last) return decode("version", value, known.schema, json);
  }
  return false;
}

}  // namespace partlog

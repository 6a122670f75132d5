#include "partlog/topic_config.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "format/codec.h"
#include "format/properties.h"
#include "partlog/error.h"
#include "partlog/store.h"

namespace partlog {

namespace {

enum class Kind { number, fraction, words };

struct Rule {
  TopicConfig::Definition definition;
  Kind kind;
  std::int64_t min;
  std::int64_t max;
  std::vector<std::string_view> words;  // allowed values; several may be joined by commas for cleanup.policy only
};

constexpr auto int32_max = std::numeric_limits<std::int32_t>::max();
constexpr auto int64_max = std::numeric_limits<std::int64_t>::max();

// Names, defaults and ranges: org.apache.kafka.common.config.TopicConfig and LogConfig; ranges are Kafka's, but for
// segment.bytes, whose lower bound Kafka has raised since.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {{"cleanup.policy", "delete", "delete, compact, or both: what retention may remove"},
       Kind::words,
       0,
       0,
       {"delete", "compact"}},
      {{"compression.type", "producer", "codec of stored batches; producer: the one the producer chose"},
       Kind::words,
       0,
       0,
       {"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}},
      {{"delete.retention.ms", "86400000", "how long tombstones stay after compaction first saw them"},
       Kind::number,
       0,
       int64_max,
       {}},
      {{"flush.messages", "9223372036854775807", "appended records after which they are synced"}, Kind::number, 1, int64_max, {}},
      {{"index.interval.bytes", "4096", "distance of index entries in the log"}, Kind::number, 0, int32_max, {}},
      {{"max.compaction.lag.ms", "9223372036854775807", "latest age at which a record is compacted"},
       Kind::number,
       1,
       int64_max,
       {}},
      {{"max.message.bytes", "1048588", "largest batch as stored"}, Kind::number, 0, int32_max, {}},
      {{"message.timestamp.after.max.ms", "3600000", "how far a record's timestamp may lie in the future"},
       Kind::number,
       0,
       int64_max,
       {}},
      {{"message.timestamp.type", "CreateTime", "CreateTime (the producer's) or LogAppendTime"},
       Kind::words,
       0,
       0,
       {"CreateTime", "LogAppendTime"}},
      {{"min.cleanable.dirty.ratio", "0.5", "share of uncompacted bytes that makes compaction worth while"},
       Kind::fraction,
       0,
       1,
       {}},
      {{"min.compaction.lag.ms", "0", "youngest age at which a record is compacted"}, Kind::number, 0, int64_max, {}},
      {{"min.insync.replicas", "1", "replicas that must have a record before --acks all succeeds"},
       Kind::number,
       1,
       int32_max,
       {}},
      {{"retention.bytes", "-1", "bytes of a partition kept; -1: no limit"}, Kind::number, -1, int64_max, {}},
      {{"retention.ms", "604800000", "age of a segment's last record at which it is removed; -1: never"},
       Kind::number,
       -1,
       int64_max,
       {}},
      {{"segment.bytes", "1073741824", "size at which a new segment is begun"}, Kind::number, 14, int32_max, {}},
      {{"segment.ms", "604800000", "age of its first batch at which a new segment is begun"}, Kind::number, 1, int64_max, {}},
  };
  return all;
}

const Rule& rule_for(std::string_view name) {
  const auto& all = rules();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Rule& r) { return r.definition.name == name; });
  if (found != all.end()) return *found;
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const auto& r : all) names.emplace_back(r.definition.name);
  std::string message = "unknown topic config \"" + std::string(name) + "\"";
  if (const auto similar = similar_names(name, names); !similar.empty()) message += "; did you mean " + similar.front() + "?";
  throw Error(ErrorCode::invalid_argument, message);
}

bool is_word_list(const Rule& rule, std::string_view value) {
  const bool several = rule.definition.name == "cleanup.policy";
  for (std::size_t at = 0; at <= value.size();) {
    const auto comma = std::min(several ? value.find(',', at) : std::string_view::npos, value.size());
    if (std::find(rule.words.begin(), rule.words.end(), value.substr(at, comma - at)) == rule.words.end()) return false;
    at = comma + 1;
  }
  return true;
}

// What a value must be, for the message, or empty if it is.
std::string value_fault(const Rule& rule, std::string_view value) {
  if (rule.kind == Kind::words) {
    if (is_word_list(rule, value)) return "";
    std::string allowed = "one of";
    for (const auto word : rule.words) allowed += ' ' + std::string(word);
    if (value == "none" && rule.definition.name == "compression.type") allowed += " (uncompressed means none)";
    return allowed;
  }
  if (rule.kind == Kind::fraction) {
    double number = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size() && number >= 0 && number <= 1) return "";
    return "a number from 0 to 1";
  }
  const auto number = format::parse_integer(value);
  if (number && *number >= rule.min && *number <= rule.max) return "";
  return "an integer from " + std::to_string(rule.min) + " to " + std::to_string(rule.max);
}

}  // namespace

const std::vector<TopicConfig::Definition>& TopicConfig::definitions() {
  static const std::vector<Definition> all = [] {
    std::vector<Definition> list;
    for (const auto& rule : rules()) list.push_back(rule.definition);
    return list;
  }();
  return all;
}

void TopicConfig::set(std::string_view name, std::string_view value) {
  const auto& rule = rule_for(name);
  if (const auto fault = value_fault(rule, value); !fault.empty()) {
    throw Error(ErrorCode::invalid_argument, std::string(name) + " must be " + fault + ", not \"" + std::string(value) + "\"");
  }
  values_[std::string(name)] = value;
}

void TopicConfig::unset(std::string_view name) { values_.erase(std::string(rule_for(name).definition.name)); }

bool TopicConfig::is_set(std::string_view name) const { return values_.contains(name); }

std::string TopicConfig::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::string(rule_for(name).definition.default_value);
}

std::int64_t TopicConfig::number(std::string_view name) const { return format::parse_integer(get(name)).value_or(0); }

std::optional<Compression> TopicConfig::compression() const {
  const auto type = get("compression.type");
  if (type == "producer") return std::nullopt;
  return type == "uncompressed" ? Compression::none : format::codec_by_name(type);
}

TimestampType TopicConfig::timestamp_type() const {
  return get("message.timestamp.type") == "LogAppendTime" ? TimestampType::log_append_time : TimestampType::create_time;
}

bool TopicConfig::is_compacted() const { return get("cleanup.policy").find("compact") != std::string::npos; }

}  // namespace partlog

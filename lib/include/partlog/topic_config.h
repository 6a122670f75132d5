// The configuration of a topic under Kafka's names, values and defaults ("Topic-Level Configs" in the Kafka documentation).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/export.h"
#include "partlog/types.h"

namespace partlog {

class PARTLOG_EXPORT TopicConfig {
 public:
  struct Definition {
    std::string_view name;
    std::string_view default_value;
    std::string_view meaning;  // one line, for listings
  };
  // All known names, in the order of the alphabet.
  static const std::vector<Definition>& definitions();

  // Sets one value. Error(invalid_argument) for an unknown name (naming the nearest) or a bad value (saying what is allowed).
  void set(std::string_view name, std::string_view value);
  // Back to the default. Error(invalid_argument) for an unknown name.
  void unset(std::string_view name);
  bool is_set(std::string_view name) const;
  // The value in force, set or default.
  std::string get(std::string_view name) const;
  // Only what was set.
  const std::map<std::string, std::string, std::less<>>& values() const { return values_; }

  std::int64_t number(std::string_view name) const;  // an integer-valued config
  std::int64_t segment_bytes() const { return number("segment.bytes"); }
  std::int64_t segment_ms() const { return number("segment.ms"); }
  std::int64_t index_interval_bytes() const { return number("index.interval.bytes"); }
  std::int64_t max_message_bytes() const { return number("max.message.bytes"); }
  // nullopt: "producer", the producer's codec is kept.
  std::optional<Compression> compression() const;
  TimestampType timestamp_type() const;
  bool is_compacted() const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace partlog

// One line of JSON to one record: what `consume -J` writes, and what kcat writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "partlog/record.h"

namespace partlog::cmd {

// A record with its own bytes.
struct JsonRecord {
  std::optional<std::string> key;
  std::optional<std::string> value;
  HeaderBuilder headers;
  Timestamp timestamp = no_timestamp;
  std::optional<std::int64_t> partition;
  std::size_t partition_column = 0;  // where it stands, as in JsonError

  void clear();
};

struct JsonError {
  std::size_t column;  // bytes from the start of the line, from 1
  std::string message;
};

// Fills `record`; returns what is wrong where `line` is no record.
std::optional<JsonError> parse_json_record(std::string_view line, JsonRecord& record);

}  // namespace partlog::cmd

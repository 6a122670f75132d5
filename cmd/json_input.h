// One line of JSON to one record: what `consume -J` writes, and what kcat writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "partlog/record.h"

namespace partlog::cmd {

// All bytes are in the line, but for headers that have no room there.
struct JsonRecord {
  Bytes key;
  Bytes value;
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

// Fills `record`; returns what is wrong where `line`, of less than 4 GiB, is no record. Strings are unpacked in place: the line
// is not what it was afterwards.
std::optional<JsonError> parse_json_record(std::span<char> line, JsonRecord& record);

}  // namespace partlog::cmd

// Positions as comma-separated values, in Kafka's form: `topic,partition,offset`, or `group,topic,partition,offset`.
//
// Kafka's tool puts a field in quotes where it is longer than 24 characters, so quotes are read; blank lines are ignored. There
// is no header line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/types.h"

namespace partlog::cmd {

struct OffsetRow {
  std::string topic;
  int partition = 0;
  Offset offset;
  std::string where;  // file and line, for messages
};

// The rows of a file (`-`: standard input) that are `group`'s or name no group; how many were others' is told in a notice. Error
// naming file and line for what is no such row, and for a partition that stands there twice.
std::vector<OffsetRow> read_offsets_file(const std::string& path, std::string_view group);
// The same from what is in memory.
std::vector<OffsetRow> parse_offsets(std::string_view text, const std::string& file, std::string_view group);

// Error(io) if the file could not be written; makes it, empty, where it is absent.
void require_writable_file(const std::string& path);
// Replaces a file whole, so that it is never seen half written; anything else than a regular file is written to.
void write_offsets_file(const std::string& path, std::string_view text);

void append_offset_row(std::string& out, std::string_view topic, int partition, Offset offset);

}  // namespace partlog::cmd

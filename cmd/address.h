// Record addresses: `TOPIC`, `TOPIC:PARTITIONS` (`0`, `0,2`, `0-3`) or `TOPIC:PARTITION:OFFSET`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/error.h"
#include "partlog/store.h"

namespace partlog::cmd {

struct PartitionRange {
  int first;
  int last;
};

struct Address {
  std::string topic;
  std::vector<PartitionRange> partitions;  // in the order written; empty: all
  std::optional<Offset> offset;
};

// UsageError for anything that is not an address.
Address parse_address(std::string_view text);
// As above, but UsageError for one that names an offset.
Address parse_topic_address(std::string_view text);
// `0,2` or `0-3`; UsageError naming `what` the text stands in.
std::vector<PartitionRange> parse_partitions(std::string_view text, std::string_view what);

// The partitions of the ranges that the topic has, in the order written, each once; `missing` becomes what it has not.
std::vector<int> expand_partitions(const std::vector<PartitionRange>& ranges, const Topic& topic,
                                   std::vector<PartitionRange>& missing);
Error no_such_partition(const Topic& topic, PartitionRange missing);
// As above. Error(invalid_argument) if the topic has no such partition.
std::vector<int> expand_partitions(const std::vector<PartitionRange>& ranges, const Topic& topic);

}  // namespace partlog::cmd

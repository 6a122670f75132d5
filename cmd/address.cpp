#include "address.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "exit_status.h"
#include "text.h"

namespace partlog::cmd {
namespace {

// Takes `text` up to `separator` off its front; all of it where there is none.
std::string_view take_field(std::string_view& text, char separator) {
  std::size_t end = text.find(separator);
  std::string_view field = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return field;
}

std::optional<int> partition_number(std::string_view text) {
  auto value = parse_decimal(text);
  if (!value || *value < 0 || *value > std::numeric_limits<int>::max() || text.starts_with('-')) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace

std::vector<PartitionRange> parse_partitions(std::string_view text, std::string_view what) {
  std::vector<PartitionRange> ranges;
  std::string_view rest = text;
  bool more = true;
  while (more) {
    more = rest.find(',') != std::string_view::npos;
    std::string_view item = take_field(rest, ',');
    bool is_range = item.find('-') != std::string_view::npos;
    auto first = partition_number(take_field(item, '-'));
    auto last = is_range ? partition_number(item) : first;
    if (!first || !last || *first > *last) {
      throw UsageError(std::string(what) + ": '" + std::string(text) + "' are no partitions: write 0, 0,2 or 0-3");
    }
    ranges.push_back({*first, *last});
  }
  return ranges;
}

Address parse_address(std::string_view text) {
  Address address;
  std::string_view rest = text;
  bool has_partitions = rest.find(':') != std::string_view::npos;
  address.topic = take_field(rest, ':');
  if (!has_partitions) return address;
  bool has_offset = rest.find(':') != std::string_view::npos;
  address.partitions = parse_partitions(take_field(rest, ':'), text);
  if (!has_offset) return address;
  auto offset = parse_decimal(rest);
  if (!offset || *offset < 0 || address.partitions.size() != 1 || address.partitions[0].first != address.partitions[0].last) {
    throw UsageError("'" + std::string(text) + "' is no address: write TOPIC, TOPIC:PARTITIONS or TOPIC:PARTITION:OFFSET");
  }
  address.offset = Offset{*offset};
  return address;
}

Address parse_topic_address(std::string_view text) {
  Address address = parse_address(text);
  if (address.offset) throw UsageError("'" + std::string(text) + "' names an offset; write TOPIC or TOPIC:PARTITIONS");
  return address;
}

Error no_such_partition(const Topic& topic, PartitionRange missing) {
  std::string which = " has no partition " + std::to_string(missing.first);
  if (missing.last != missing.first)
    which = " has no partitions " + std::to_string(missing.first) + " to " + std::to_string(missing.last);
  return {ErrorCode::invalid_argument,
          "topic " + topic.name + which + ": it has " + counted(static_cast<std::uint64_t>(topic.partitions), "partition")};
}

std::vector<int> expand_partitions(const std::vector<PartitionRange>& ranges, const Topic& topic) {
  std::vector<PartitionRange> missing;
  auto partitions = expand_partitions(ranges, topic, missing);
  if (!missing.empty()) throw no_such_partition(topic, missing.front());
  return partitions;
}

std::vector<int> expand_partitions(const std::vector<PartitionRange>& ranges, const Topic& topic,
                                   std::vector<PartitionRange>& missing) {
  std::vector<int> partitions;
  if (ranges.empty()) {
    partitions.resize(static_cast<std::size_t>(topic.partitions));
    std::iota(partitions.begin(), partitions.end(), 0);
    return partitions;
  }
  std::vector<bool> seen(static_cast<std::size_t>(topic.partitions));
  for (auto [first, last] : ranges) {
    if (last >= topic.partitions) missing.push_back({std::max(first, topic.partitions), last});
    for (int p = first; p <= std::min(last, topic.partitions - 1); ++p) {
      if (!seen[static_cast<std::size_t>(p)]) partitions.push_back(p);
      seen[static_cast<std::size_t>(p)] = true;
    }
  }
  return partitions;
}

}  // namespace partlog::cmd

#include "format/file_names.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"
#include "format/checkpoint.h"
#include "format/properties.h"

namespace partlog::format {

namespace {

constexpr std::size_t offset_digits = 20;
constexpr std::size_t max_name_size = 249;
constexpr std::string_view before_repair = "before-repair.";

std::string padded(Offset offset) {
  PARTLOG_CHECK(offset.value >= 0);
  const std::string digits = std::to_string(offset.value);
  return std::string(offset_digits - digits.size(), '0') + digits;
}

std::string join(const std::string& directory, std::string_view name) {
  std::string path = directory;
  path += '/';
  path += name;
  return path;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

std::string segment_file_name(Offset base, std::string_view suffix) { return padded(base).append(suffix); }

std::optional<Offset> parse_segment_file_name(std::string_view name, std::string_view suffix) {
  if (name.size() != offset_digits + suffix.size() || !name.ends_with(suffix)) return std::nullopt;
  const std::string_view digits = name.substr(0, offset_digits);
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  const auto value = parse_integer(digits);
  if (!value) return std::nullopt;
  return Offset{*value};
}

std::string cut_file_name(Offset base, Position position) { return padded(base) + "." + std::to_string(position.value) + ".cut"; }

std::string name_fault(std::string_view name) {
  if (name.empty()) return "is empty";
  if (name == "." || name == "..") return "is \".\" or \"..\"";
  if (name.size() > max_name_size) return "is longer than " + std::to_string(max_name_size) + " characters";
  if (!std::all_of(name.begin(), name.end(), is_name_character)) return "has a character other than a-z, A-Z, 0-9, '.', '_', '-'";
  return {};
}

std::string store_properties_path(const std::string& store) { return join(store, "store.properties"); }
std::string staging_path(const std::string& store) { return join(store, "staging"); }
std::string trash_path(const std::string& store) { return join(store, "trash"); }
std::string topics_path(const std::string& store) { return join(store, "topics"); }
std::string topic_path(const std::string& store, std::string_view topic) { return join(topics_path(store), topic); }
std::string topic_properties_path(const std::string& topic_directory) { return join(topic_directory, "topic.properties"); }
std::string topic_lock_path(const std::string& topic_directory) { return join(topic_directory, "topic.lock"); }
std::string partition_path(const std::string& topic_directory, int partition) {
  return join(topic_directory, std::to_string(partition));
}
std::string leader_epoch_checkpoint_path(const std::string& partition_directory) {
  return join(partition_directory, "leader-epoch-checkpoint");
}
std::string partition_metadata_path(const std::string& partition_directory) {
  return join(partition_directory, "partition.metadata");
}
std::string log_start_offset_path(const std::string& partition_directory) {
  return join(partition_directory, "log-start-offset");
}
std::string recovery_point_path(const std::string& partition_directory) { return join(partition_directory, "recovery-point"); }
std::string cuts_path(const std::string& partition_directory) { return join(partition_directory, "cuts"); }
std::string append_lock_path(const std::string& partition_directory) { return join(partition_directory, "append.lock"); }
std::string lost_offsets_path(const std::string& partition_directory) { return join(partition_directory, "lost-offsets"); }
std::string repair_path(const std::string& partition_directory) { return join(partition_directory, repair_name); }
std::string before_repair_path(const std::string& partition_directory, int number) {
  return join(partition_directory, std::string(before_repair) + std::to_string(number));
}
std::optional<int> parse_before_repair_name(std::string_view name) {
  if (!name.starts_with(before_repair)) return std::nullopt;
  return parse_partition_name(name.substr(before_repair.size()));
}
std::string sync_failed_path(const std::string& partition_directory) { return join(partition_directory, "sync-failed"); }

std::string groups_path(const std::string& store) { return join(store, "groups"); }
std::string group_path(const std::string& store, std::string_view group) { return join(groups_path(store), group); }
std::string group_lock_path(const std::string& group_directory) { return join(group_directory, "group.lock"); }
std::string group_properties_path(const std::string& group_directory) { return join(group_directory, "group.properties"); }
std::string members_path(const std::string& group_directory) { return join(group_directory, "members"); }
std::string member_lock_path(const std::string& group_directory, std::string_view member) {
  return join(members_path(group_directory), member).append(lock_suffix);
}
std::string member_table_path(const std::string& group_directory, std::string_view member) {
  return join(members_path(group_directory), member).append(table_suffix);
}
static std::optional<std::string> parse_member_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  if (!name_fault(name).empty()) return std::nullopt;
  return std::string(name);
}
std::optional<std::string> parse_member_lock_name(std::string_view name) { return parse_member_name(name, lock_suffix); }
std::optional<std::string> parse_member_table_name(std::string_view name) { return parse_member_name(name, table_suffix); }
std::string offsets_path(const std::string& group_directory) { return join(group_directory, "offsets"); }
std::string topic_offsets_path(const std::string& group_directory, std::string_view topic) {
  return join(offsets_path(group_directory), topic);
}
std::string offset_file_path(const std::string& group_directory, std::string_view topic, int partition) {
  return join(topic_offsets_path(group_directory, topic), std::to_string(partition));
}
std::string offset_lock_path(const std::string& group_directory, std::string_view topic, int partition) {
  return offset_file_path(group_directory, topic, partition).append(lock_suffix);
}
std::string claims_path(const std::string& group_directory) { return join(group_directory, "claims"); }
std::string topic_claims_path(const std::string& group_directory, std::string_view topic) {
  return join(claims_path(group_directory), topic);
}
std::string claim_lock_path(const std::string& group_directory, std::string_view topic, int partition) {
  return join(topic_claims_path(group_directory, topic), std::to_string(partition)).append(lock_suffix);
}

std::optional<int> parse_partition_name(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return std::nullopt;
  name.remove_suffix(suffix.size());
  const auto value = parse_integer(name);
  if (!value || *value < 0 || *value > std::numeric_limits<int>::max() || std::to_string(*value) != name) return std::nullopt;
  return static_cast<int>(*value);
}

// A name may be as long as a file name: it is cut, the rest tells them apart.
std::string unique_name(std::string_view name) { return std::string(name.substr(0, 200)) + '.' + random_uuid(); }

}  // namespace partlog::format

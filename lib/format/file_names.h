// Where everything stands in a store: the one place where file names are made and parsed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "partlog/types.h"

namespace partlog::format {

inline constexpr std::string_view log_suffix = ".log";
inline constexpr std::string_view index_suffix = ".index";
inline constexpr std::string_view time_index_suffix = ".timeindex";
inline constexpr std::string_view deleted_suffix = ".deleted";  // behind the suffix of what a broker is about to remove
inline constexpr std::string_view lock_suffix = ".lock";
inline constexpr std::string_view table_suffix = ".tmp";

// 20 digits and the suffix: segment_file_name({7}, log_suffix) is "00000000000000000007.log".
std::string segment_file_name(Offset base, std::string_view suffix);
// The base offset of exactly such a name with this suffix; nullopt for anything else (other digits, too large a number).
std::optional<Offset> parse_segment_file_name(std::string_view name, std::string_view suffix);

// Where the bytes of a torn tail cut at `position` of a segment are kept: "<base>.<position>.cut". Not a name a broker looks at.
std::string cut_file_name(Offset base, Position position);

// The most that a topic can have; they are numbered from 0.
inline constexpr int max_partitions = 100'000;

// Kafka's rule for topic and group names: [a-zA-Z0-9._-], 1 to 249, not "." or "..". Returns what is wrong, empty if nothing is.
std::string name_fault(std::string_view name);

std::string store_properties_path(const std::string& store);
std::string staging_path(const std::string& store);
std::string trash_path(const std::string& store);
std::string topics_path(const std::string& store);
std::string topic_path(const std::string& store, std::string_view topic);
std::string topic_properties_path(const std::string& topic_directory);
// Locked while the properties are changed, and while the topic is being made or taken away.
std::string topic_lock_path(const std::string& topic_directory);
std::string partition_path(const std::string& topic_directory, int partition);
std::string leader_epoch_checkpoint_path(const std::string& partition_directory);
std::string partition_metadata_path(const std::string& partition_directory);
std::string log_start_offset_path(const std::string& partition_directory);
std::string recovery_point_path(const std::string& partition_directory);
std::string cuts_path(const std::string& partition_directory);
std::string append_lock_path(const std::string& partition_directory);
std::string lost_offsets_path(const std::string& partition_directory);  // what repairs could not save
inline constexpr std::string_view repair_name = "repair";  // the directory of files that a repair is about to put in place
std::string repair_path(const std::string& partition_directory);
// The number of the directory "before-repair.N", in which a repair keeps the files that it replaces; nullopt for another name.
std::string before_repair_path(const std::string& partition_directory, int number);
std::optional<int> parse_before_repair_name(std::string_view name);
std::string sync_failed_path(const std::string& partition_directory);  // present: a sync failed, appends are refused

std::string groups_path(const std::string& store);
std::string group_path(const std::string& store, std::string_view group);
std::string group_lock_path(const std::string& group_directory);
std::string group_properties_path(const std::string& group_directory);
std::string members_path(const std::string& group_directory);
std::string member_lock_path(const std::string& group_directory, std::string_view member);
// The table of members before it is put in place, as this member wrote it.
std::string member_table_path(const std::string& group_directory, std::string_view member);
// The member of exactly such a file name; nullopt for anything else.
std::optional<std::string> parse_member_lock_name(std::string_view name);
std::optional<std::string> parse_member_table_name(std::string_view name);
std::string offsets_path(const std::string& group_directory);
std::string topic_offsets_path(const std::string& group_directory, std::string_view topic);
std::string offset_file_path(const std::string& group_directory, std::string_view topic, int partition);
std::string offset_lock_path(const std::string& group_directory, std::string_view topic, int partition);
std::string claims_path(const std::string& group_directory);
std::string topic_claims_path(const std::string& group_directory, std::string_view topic);
std::string claim_lock_path(const std::string& group_directory, std::string_view topic, int partition);
// The partition that a file or directory is named for, with this suffix; nullopt for anything else ("01", "-1").
std::optional<int> parse_partition_name(std::string_view name, std::string_view suffix = {});

// For a directory in staging or trash that belongs to a topic or group: no other has this name.
std::string unique_name(std::string_view name);

}  // namespace partlog::format

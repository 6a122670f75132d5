// A store: a directory of topics, each split into partitions. Several processes and threads may use one store at the same time; a
// Store object is immutable but for its path and safe to share between threads. Nothing here writes unless it says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/topic_config.h"
#include "partlog/types.h"

namespace partlog {

// A topic as it stood when it was looked up.
struct Topic {
  std::string name;
  std::string id;  // Kafka's Uuid as text; another id means that the topic was deleted and made anew
  int partitions = 0;
  TopicConfig config;
  std::string directory;
};

struct SegmentInfo {
  Offset base;
  std::int64_t size_bytes = 0;
  Timestamp modified;
};

// A partition as it stood when it was looked at.
struct PartitionInfo {
  Offset start;  // first offset readers may see
  Offset end;    // end offset: the next to be written
  std::int64_t size_bytes = 0;
  std::vector<SegmentInfo> segments;
};

// What files take up. Not a moment's state: others may write and remove meanwhile.
struct DiskUsage {
  std::int64_t segments = 0;         // number of .log files
  std::int64_t log_bytes = 0;        // their size
  std::int64_t index_bytes = 0;      // size of .index and .timeindex files
  std::int64_t other_bytes = 0;      // size of all other files, those in subdirectories included
  std::int64_t allocated_bytes = 0;  // of the disk, by files and directories: holes not counted, reserved space counted
  std::vector<Error> unreadable;     // directories whose contents are not counted
  std::vector<Error> foreign;        // the same, of which it is plain that no command has made them: lost+found
};

// Called with one line, without newline, for what a user should know but nobody asked for (a torn tail that was cut).
using Notice = std::function<void(const std::string&)>;

class PARTLOG_EXPORT Store {
 public:
  // Opens the store in a directory. Error(not_found) if there is none, Error(refused) for a newer format version or a file system
  // whose locks do not reach other hosts, Error(damaged) for an unreadable store.properties.
  static Store open(const std::string& directory);
  // Makes a store where the directory is absent or empty, or holds no more than an interrupted creation left, then opens it;
  // opens what is there otherwise. Durable on return. Error(not_found) for any other directory, also a store without its
  // properties.
  static Store open_or_create(const std::string& directory);
  // Throws what open_or_create() would throw where there is no store and none can be made, as far as that can be known without
  // writing.
  static void require_creatable(const std::string& directory);

  const std::string& directory() const { return directory_; }
  bool on_network() const { return network_; }

  std::vector<std::string> topic_names() const;              // sorted
  std::string topic_directory(std::string_view name) const;  // where the topic stands, or would
  // Error(not_found) naming similar topics; Error(invalid_argument) for an illegal name.
  Topic topic(std::string_view name) const;
  // Error(damaged) for one whose description is, or is missing while its partitions are there.
  std::optional<Topic> find_topic(std::string_view name) const;
  // Reads no records but the few behind the last index entry. Error(damaged) if the end cannot be told.
  PartitionInfo partition_info(const Topic& topic, int partition) const;
  // By metadata alone. Error(io).
  DiskUsage disk_usage(const Topic& topic, int partition) const;
  DiskUsage disk_usage(const Topic& topic) const;  // of all partitions, and what stands beside them
  DiskUsage disk_usage_outside_topics() const;     // groups, and what is left of topics being made or removed

  // Throws what changing the topics would throw where the store may not be written to, as far as that can be known without
  // writing.
  void require_writable() const;
  // Error(already_exists) for the name of a topic; Error(refused) where something else stands in its place.
  void require_free(std::string_view name) const;
  // Makes the topic whole or not at all; durable on return. Error(already_exists), Error(invalid_argument); Error(refused) as
  // require_no_collision() throws it.
  void create_topic(std::string_view name, int partitions, const TopicConfig& config) const;
  // Calls `change` with the configuration as it is now, others kept from changing it meanwhile, and stores what that leaves;
  // durable on return. Running producers go on with the old one until their next segment. Error(not_found) if the topic was
  // deleted, or made anew, since it was looked up; Error(busy) after the time-out.
  void alter_topic_config(const Topic& topic, const std::function<void(TopicConfig&)>& change,
                          std::optional<std::chrono::milliseconds> lock_timeout = {}) const;
  // The topic is gone from view on return; its files are then removed. Producers that have it open fail at their next append.
  // Groups keep their offset files, which no longer count (another topic id).
  void delete_topic(const Topic& topic) const;

 private:
  Store(std::string directory, bool network) : directory_(std::move(directory)), network_(network) {}
  std::string directory_;
  bool network_;
};

// "Did you mean" for a name among others: up to three, nearest first; large and small letters are not told apart.
PARTLOG_EXPORT std::vector<std::string> similar_names(std::string_view name, const std::vector<std::string>& among);

// Error(refused) for a name that differs from one of the others in dots and underscores only: Kafka would not have both.
PARTLOG_EXPORT void require_no_collision(std::string_view name, const std::vector<std::string>& among);

// Kafka's rule for topic names; throws Error(invalid_argument) saying what is wrong.
PARTLOG_EXPORT void require_valid_topic_name(std::string_view name);

}  // namespace partlog

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "format/file_names.h"
#include "os/directory.h"
#include "partlog/error.h"
#include "partlog/store.h"

namespace partlog {

namespace {

enum class Segments { no, yes };  // whether such files may stand in a directory
enum class Owner { store, others };

// Whether a command may have made a directory of that name, in what is below.
using IsOurs = bool (*)(std::string_view name);

bool is_of_partition(std::string_view name) { return name == format::repair_name || format::parse_before_repair_name(name); }
bool is_legal(std::string_view name) { return format::name_fault(name).empty(); }

bool is_segment_file(std::string_view name, std::string_view suffix) {
  return format::parse_segment_file_name(name, suffix).has_value();
}

void add_file(DiskUsage& usage, std::string_view name, const os::FileStatus& status, Segments segments) {
  const bool may_be = segments == Segments::yes;
  if (may_be && is_segment_file(name, format::log_suffix)) {
    ++usage.segments;
    usage.log_bytes += status.size;
  } else if (may_be && (is_segment_file(name, format::index_suffix) || is_segment_file(name, format::time_index_suffix))) {
    usage.index_bytes += status.size;
  } else {
    usage.other_bytes += status.size;
  }
}

// Everything below a directory. What others remove meanwhile does not count.
class Sum {
 public:
  explicit Sum(IsOurs is_ours) : is_ours_(is_ours) {}

  void itself(const std::string& path) {
    if (const auto status = os::status_of_link(path)) usage.allocated_bytes += status->allocated;
  }

  void partition(const std::string& path) {
    itself(path);
    directory(path, Segments::yes, Owner::store);
  }

  void directory(const std::string& path, Segments segments, Owner owner) {
    try {
      for (const auto& name : os::list_directory(path)) {
        entry(path + '/' + name, name, segments, owner == Owner::store && is_ours_(name) ? Owner::store : Owner::others);
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found) (owner == Owner::store ? usage.unreadable : usage.foreign).push_back(error);
    }
  }

  void entry(const std::string& path, std::string_view name, Segments segments, Owner owner) {
    const auto status = os::status_of_link(path);
    if (!status) return;
    usage.allocated_bytes += status->allocated;
    if (status->is_directory) {
      directory(path, Segments::no, owner);
    } else {
      add_file(usage, name, *status, segments);
    }
  }

  DiskUsage usage;

 private:
  IsOurs is_ours_;
};

}  // namespace

DiskUsage Store::disk_usage(const Topic& topic, int partition) const {
  Sum sum(is_of_partition);
  sum.partition(format::partition_path(topic.directory, partition));
  return std::move(sum.usage);
}

DiskUsage Store::disk_usage(const Topic& topic) const {
  Sum sum(is_of_partition);
  for (int p = 0; p < topic.partitions; ++p) sum.partition(format::partition_path(topic.directory, p));
  sum.itself(topic.directory);
  for (const auto& name : os::list_directory(topic.directory)) {
    const auto partition = format::parse_partition_name(name);
    if (!partition || *partition >= topic.partitions) sum.entry(topic.directory + '/' + name, name, Segments::no, Owner::others);
  }
  return std::move(sum.usage);
}

DiskUsage Store::disk_usage_outside_topics() const {
  Sum sum(is_legal);
  const auto topics = format::topics_path(directory_);
  sum.itself(directory_);
  sum.itself(topics);
  const std::array ours = {format::groups_path(directory_), format::staging_path(directory_), format::trash_path(directory_)};
  for (const auto& name : os::list_directory(directory_)) {
    const auto path = directory_ + '/' + name;
    const bool is_ours = std::find(ours.begin(), ours.end(), path) != ours.end();
    if (path != topics) sum.entry(path, name, Segments::no, is_ours ? Owner::store : Owner::others);
  }
  return std::move(sum.usage);
}

}  // namespace partlog

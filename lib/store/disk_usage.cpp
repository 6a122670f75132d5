#include <string_view>

#include "format/file_names.h"
#include "os/directory.h"
#include "partlog/error.h"
#include "partlog/store.h"

namespace partlog {

namespace {

enum class Segments { no, yes };  // whether such files may stand in a directory

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

void add_entry(DiskUsage& usage, const std::string& path, std::string_view name, const os::FileStatus& status, Segments segments);

// Everything below the directory. What others remove meanwhile does not count.
void add_directory(DiskUsage& usage, const std::string& path, Segments segments) {
  try {
    for (const auto& name : os::list_directory(path)) {
      const auto file = path + '/' + name;
      if (const auto status = os::status_of_link(file)) add_entry(usage, file, name, *status, segments);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) usage.unreadable.push_back(error);
  }
}

void add_entry(DiskUsage& usage, const std::string& path, std::string_view name, const os::FileStatus& status,
               Segments segments) {
  usage.allocated_bytes += status.allocated;
  if (status.is_directory) {
    add_directory(usage, path, Segments::no);
  } else {
    add_file(usage, name, status, segments);
  }
}

}  // namespace

DiskUsage Store::disk_usage(const Topic& topic, int partition) const {
  DiskUsage usage;
  add_directory(usage, format::partition_path(topic.directory, partition), Segments::yes);
  return usage;
}

DiskUsage Store::disk_usage_outside_topics() const {
  DiskUsage usage;
  const auto topics = format::topics_path(directory_);
  for (const auto& name : os::list_directory(directory_)) {
    const auto path = directory_ + '/' + name;
    if (path == topics) continue;
    if (const auto status = os::status_of_link(path)) add_entry(usage, path, name, *status, Segments::no);
  }
  return usage;
}

}  // namespace partlog

#include "inspect/partition_context.h"

#include "format/file_names.h"
#include "format/properties.h"
#include "inspect/unreadable.h"
#include "log/partition_directory.h"
#include "os/directory.h"
#include "os/filesystem.h"

namespace partlog::inspect {

namespace {

void read_topic_properties(PartitionContext& context) {
  std::string directory = context.directory;
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  const auto slash = directory.rfind('/');
  const auto topic = slash == std::string::npos ? std::string("..") : directory.substr(0, slash);
  const auto file = format::topic_properties_path(topic);
  const auto text = unless_unreadable([&] { return os::read_file(file); }).value_or(std::string());
  if (!os::status_of(format::append_lock_path(context.directory))) return;
  context.is_ours = text || os::status_of(format::store_properties_path(topic + "/../.."));
  if (!text) return;
  auto properties = format::parse_properties(*text, file);
  context.topic_id = properties["topic.id"];
  const auto policy = properties.find("cleanup.policy");
  context.is_dense = policy == properties.end() || policy->second.find("compact") == std::string::npos;
  if (const auto found = properties.find("index.interval.bytes"); found != properties.end()) {
    context.index_interval_bytes = format::parse_integer(found->second).value_or(context.index_interval_bytes);
  }
}

}  // namespace

PartitionContext context_of(const std::string& directory) {
  PartitionContext context;
  context.directory = directory;
  context.on_network = os::filesystem_of(directory).network;
  unless_unreadable([&] {
    read_topic_properties(context);
    return true;
  });
  const log::PartitionDirectory files(directory, context.on_network);
  if (const auto lost = unless_unreadable([&] { return files.lost_offsets(); })) {
    for (const auto& range : *lost) context.lost.emplace_back(range.first, range.last);
  }
  if (!context.is_ours) context.missing_start = unless_unreadable([&] { return files.missing_start(); }).value_or(std::nullopt);
  return context;
}

LogState PartitionContext::start() const {
  LogState state;
  const log::PartitionDirectory files(directory, on_network);
  state.synced = unless_unreadable([&] { return files.recovery_point(); }).value_or(std::nullopt);
  if (state.synced && files.is_of_another_boot(*state.synced)) state.suspect = state.synced;
  state.is_dense = is_ours && is_dense;
  state.log_start = missing_start;
  if (!is_ours && !os::status_of(format::log_start_offset_path(directory))) return state;
  state.log_start = unless_unreadable([&] { return files.log_start(); });
  return state;
}

}  // namespace partlog::inspect

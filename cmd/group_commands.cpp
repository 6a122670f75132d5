#include "group_commands.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "text.h"

namespace partlog::cmd {
namespace {

Error busy(const Group& group, const std::string& what, const MemberInfo& member) {
  return {ErrorCode::busy, "group \"" + group.name() + "\": " + what + process_of(member)};
}

}  // namespace

void declare_group(OptionSet& options, std::optional<std::string>& target) {
  options.text("-g,--group", "GROUP", target, "the group (must be given)");
}

void require_group(const std::optional<std::string>& group) {
  if (!group) throw UsageError("--group GROUP is missing");
  require_valid_group_name(*group);
}

std::optional<Group> find_group(const Store& store, const std::string& name) {
  try {
    return Group::open(store, name);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    return std::nullopt;
  }
}

std::string partition_name(std::string_view topic, int partition) { return std::string(topic) + ':' + std::to_string(partition); }

std::string process_of(const MemberInfo& member) {
  std::string process = member.pid == 0 ? "a process" : "process " + std::to_string(member.pid);
  if (member.id.empty()) return process + (member.pid == 0 ? " on another host" : "");
  return process + " on host " + member.host + " (member " + member.id + ")";
}

const Topic* TopicCache::find(const std::string& name) {
  auto known = topics_.find(name);
  if (known == topics_.end()) known = topics_.emplace(name, store_.find_topic(name)).first;
  return known->second ? &*known->second : nullptr;
}

const Topic& TopicCache::get(const std::string& name) {
  if (const Topic* topic = find(name)) return *topic;
  return *topics_.insert_or_assign(name, store_.topic(name)).first->second;
}

std::vector<TopicPartition> partitions_of(const Group& group, TopicCache& topics, std::vector<FailedTopic>& failed) {
  auto partitions = group.partitions(&failed);
  std::erase_if(failed, [&](const FailedTopic& failure) {
    try {
      return failure.error.system_error() == ENOTDIR && topics.find(failure.topic) == nullptr;
    } catch (const Error&) {
      return false;  // there is one, in whatever state
    }
  });
  return partitions;
}

void require_no_owner(const Group& group, const std::string& topic) {
  auto its = [&](const TopicPartition& partition) { return partition.topic == topic; };
  for (const auto& member : group.state().members) {
    if (std::any_of(member.assigned.begin(), member.assigned.end(), its)) {
      throw busy(group, "topic \"" + topic + "\" is consumed by ", member);
    }
  }
  // A member that was stopped may hold what is no longer assigned to it.
  for (const auto& partition : group.partitions()) {
    if (!its(partition)) continue;
    std::optional<MemberInfo> owner;
    try {
      owner = group.owner(topic, partition.partition);
    } catch (const Error&) {
      continue;  // a claim that cannot be looked at: the matter of that partition alone
    }
    if (owner) throw busy(group, partition_name(topic, partition.partition) + " is consumed by ", *owner);
  }
}

void require_no_members(const Group& group) {
  auto state = group.state();
  if (!state.members.empty()) throw busy(group, "it has a live member: ", state.members.front());
}

void require_writable(const Store& store, const std::optional<Group>& group) {
  const std::string& directory = group ? group->directory() : store.directory();
  if (::access(directory.c_str(), W_OK | X_OK) == 0) return;
  throw Error(ErrorCode::io, "write to " + directory + ": " + system_message(errno), errno);
}

}  // namespace partlog::cmd

#include "partlog/locks.h"

#include <algorithm>
#include <cerrno>

#include "format/file_names.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "os/host.h"
#include "partlog/error.h"
#include "partlog/group.h"

namespace partlog {
namespace {

// Sorted; nothing where there is no such directory (any more), or a stranger's file by that name.
std::vector<std::string> names_in(const std::string& directory) {
  try {
    auto names = os::list_directory(directory);
    std::sort(names.begin(), names.end());
    return names;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found && error.system_error() != ENOTDIR) throw;
    return {};
  }
}

// The numbers that directories or files with this suffix are named for, sorted.
std::vector<int> partitions_in(const std::string& directory, std::string_view suffix) {
  std::vector<int> partitions;
  for (const auto& name : names_in(directory)) {
    if (const auto partition = format::parse_partition_name(name, suffix)) partitions.push_back(*partition);
  }
  std::sort(partitions.begin(), partitions.end());
  return partitions;
}

class Inspection {
 public:
  Inspection(const Store& store, bool free_ones) : store_(store), free_ones_(free_ones) {}

  std::vector<LockInfo> run() {
    for (const auto& name : store_.topic_names()) look_at_topic(name);
    for (const auto& name : Group::names(store_)) look_at_group(name);
    return std::move(found_);
  }

 private:
  using Kind = LockInfo::Kind;

  void look_at_topic(const std::string& topic) {
    const auto directory = format::topic_path(store_.directory(), topic);
    add({Kind::topic, format::topic_lock_path(directory), topic, {}, "", "", false, "", 0, no_timestamp, ""});
    for (const int p : partitions_in(directory, {})) {
      const auto path = format::append_lock_path(format::partition_path(directory, p));
      add({Kind::append, path, topic, p, "", "", false, "", 0, no_timestamp, ""});
    }
  }

  void look_at_group(const std::string& name) {
    const auto directory = format::group_path(store_.directory(), name);
    add({Kind::group, format::group_lock_path(directory), "", {}, name, "", false, "", 0, no_timestamp, ""});
    members_.clear();
    for (const auto& file : names_in(format::members_path(directory))) {
      const auto member = format::parse_member_lock_name(file);
      if (!member) continue;
      const auto path = format::member_lock_path(directory, *member);
      add({Kind::member, path, "", {}, name, *member, false, "", 0, no_timestamp, ""});
    }
    look_at_partitions(Kind::claim, name, directory, format::claims_path(directory), format::claim_lock_path);
    look_at_partitions(Kind::offset, name, directory, format::offsets_path(directory), format::offset_lock_path);
  }

  void look_at_partitions(Kind kind, const std::string& group, const std::string& group_directory, const std::string& topics,
                          std::string (*path)(const std::string&, std::string_view, int)) {
    for (const auto& topic : names_in(topics)) {
      if (!format::name_fault(topic).empty()) continue;
      for (const int p : partitions_in(topics + '/' + topic, format::lock_suffix)) {
        add({kind, path(group_directory, topic, p), topic, p, group, "", false, "", 0, no_timestamp, ""});
      }
    }
  }

  void add(LockInfo info) {
    try {
      const auto holder = os::lock_holder(info.path);
      info.held = holder.has_value();
      info.pid = holder.value_or(0);
      if (info.pid != 0) info.host = os::host_name();  // the kernel knows processes of its own only
      if (info.held) add_member(info);
      if (!info.held && !free_ones_) return;
      if (!info.held && !os::status_of(info.path)) return;
    } catch (const Error& error) {
      info.fault = error.what();
    }
    found_.push_back(std::move(info));
  }

  // What the group knows of the holder.
  void add_member(LockInfo& info) {
    if (info.kind != Kind::member && info.kind != Kind::claim) return;
    std::optional<MemberInfo> member;
    try {
      const auto group = Group::open(store_, info.group);
      if (info.kind == Kind::claim) {
        member = group.owner(info.topic, *info.partition);
      } else {
        if (members_.empty()) members_ = group.state().members;
        const auto found = std::find_if(members_.begin(), members_.end(), [&](const auto& m) { return m.id == info.member; });
        if (found != members_.end()) member = *found;
      }
    } catch (const Error&) {  // a damaged file of the group: that the lock is held is known all the same
    }
    if (!member || member->id.empty()) return;
    info.member = member->id;
    info.host = member->host;
    if (info.pid == 0) info.pid = member->pid;
    info.since = member->since;
  }

  const Store& store_;
  const bool free_ones_;
  std::vector<MemberInfo> members_;
  std::vector<LockInfo> found_;
};

}  // namespace

std::vector<LockInfo> locks(const Store& store, bool free_ones) { return Inspection(store, free_ones).run(); }

}  // namespace partlog

#include "partlog/group.h"

#include <algorithm>
#include <cerrno>

#include "format/file_names.h"
#include "group/group_files.h"
#include "os/clock.h"
#include "os/directory.h"
#include "partlog/error.h"
#include "partlog/reader.h"

namespace partlog {

namespace {

void make_if_absent(const std::string& directory) {
  try {
    os::make_directory(directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::already_exists) throw;
    group::require_no_obstacle(directory);
  }
}

bool is_group(const std::string& directory) { return os::status_of(format::group_lock_path(directory)).has_value(); }

// One that may not be looked into counts: whoever opens it hears of that.
bool may_be_group(const std::string& directory) {
  try {
    return is_group(directory);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return true;
  }
}

// The lock file comes last: with it the group is there. The first position that is to be durable syncs all this.
void make_group(const std::string& store, const std::string& directory) {
  make_if_absent(format::groups_path(store));
  make_if_absent(directory);
  for (const auto& part : {format::members_path(directory), format::offsets_path(directory), format::claims_path(directory)}) {
    make_if_absent(part);
  }
  os::FileLock::open(format::group_lock_path(directory));
}

// None where nothing is.
std::vector<std::string> names_if_any(const std::string& directory) {
  try {
    return os::list_directory(directory);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return {};
    if (error.system_error() == ENOTDIR) group::require_no_obstacle(directory);
    throw;
  }
}

// None also where something else stands in the directory's place.
std::vector<std::string> names_in(const std::string& directory) {
  try {
    return names_if_any(directory);
  } catch (const Error& error) {
    if (error.system_error() == ENOTDIR) return {};
    throw;
  }
}

std::string place(const std::string& group, const std::string& topic, int partition) {
  return "group \"" + group + "\", " + topic + ":" + std::to_string(partition);
}

void require_partition(const Topic& topic, int partition) {
  if (partition >= 0 && partition < topic.partitions) return;
  throw Error(ErrorCode::invalid_argument, "topic \"" + topic.name + "\" has partitions 0 to " +
                                               std::to_string(topic.partitions - 1) + ", no partition " +
                                               std::to_string(partition));
}

}  // namespace

void require_valid_group_name(std::string_view name) {
  if (const auto fault = format::name_fault(name); !fault.empty()) {
    throw Error(ErrorCode::invalid_argument, "group name \"" + std::string(name) + "\": " + fault);
  }
}

std::vector<std::string> Group::names(const Store& store) {
  auto names = names_in(format::groups_path(store.directory()));
  std::erase_if(names, [&](const std::string& name) {
    return !format::name_fault(name).empty() || !may_be_group(format::group_path(store.directory(), name));
  });
  std::sort(names.begin(), names.end());
  return names;
}

Group Group::open(const Store& store, std::string_view name) {
  require_valid_group_name(name);
  const auto directory = format::group_path(store.directory(), name);
  if (is_group(directory)) return {std::string(name), directory, store.on_network()};
  for (const auto& path : {format::groups_path(store.directory()), directory}) group::require_no_obstacle(path);
  std::string message = "no group \"" + std::string(name) + "\" in " + store.directory();
  const auto similar = similar_names(name, names(store));
  for (std::size_t i = 0; i < similar.size(); ++i) message += (i == 0 ? "; similar: " : ", ") + similar[i];
  throw Error(ErrorCode::not_found, message);
}

Group Group::open_or_create(const Store& store, std::string_view name) {
  require_valid_group_name(name);
  constexpr int attempts = 100;  // at a group that others remove meanwhile
  Group group(std::string(name), format::group_path(store.directory(), name), store.on_network());
  for (int attempt = 0; !is_group(group.directory_); ++attempt) {
    try {
      make_group(store.directory(), group.directory_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found || attempt == attempts) throw;
    }
  }
  return group;
}

std::vector<TopicPartition> Group::partitions(std::vector<FailedTopic>* failed) const {
  std::vector<TopicPartition> found;
  for (const auto& topic : names_if_any(format::offsets_path(directory_))) {
    if (!format::name_fault(topic).empty()) continue;
    try {
      for (const auto& name : names_if_any(format::topic_offsets_path(directory_, topic))) {
        if (const auto partition = format::parse_partition_name(name)) found.push_back({topic, *partition});
      }
    } catch (const Error& error) {
      if (failed != nullptr)
        failed->push_back({topic, error});
      else if (error.system_error() != ENOTDIR)
        throw;
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<CommittedOffset> Group::committed(const std::string& topic, int partition) const {
  const auto file = group::GroupFiles(name_, directory_, network_).offset(topic, partition);
  if (!file || !file->offset) return std::nullopt;
  return CommittedOffset{*file->offset,      file->topic_id, file->leader_epoch, file->cuts,
                         file->committed_at, file->member,   file->metadata};
}

std::optional<GroupPosition> Group::position(const Store& store, const Topic& topic, int partition) const {
  require_partition(topic, partition);
  const auto file = group::GroupFiles(name_, directory_, network_).offset(topic.name, partition);
  if (!file || !file->offset || file->topic_id != topic.id) return std::nullopt;
  return group::check_position(*file, store, topic, partition).position;
}

GroupState Group::state() const {
  auto table = group::GroupFiles(name_, directory_, network_).live_table();
  return {table.generation, std::move(table.assignor), std::move(table.members)};
}

std::optional<MemberInfo> Group::owner(const std::string& topic, int partition) const {
  return group::GroupFiles(name_, directory_, network_).owner(topic, partition);
}

namespace {

// What a commit finds, and the file that it would write.
struct CommitCheck {
  std::optional<GroupPosition> position;
  bool is_there_already = false;
  format::OffsetFile file;
};

void require_valid_commit(const Topic& topic, int partition, std::string_view metadata) {
  require_partition(topic, partition);
  if (metadata.size() > format::max_metadata_size) {
    throw Error(ErrorCode::invalid_argument, "metadata of " + std::to_string(metadata.size()) + " bytes; the most is " +
                                                 std::to_string(format::max_metadata_size));
  }
}

CommitCheck check_commit_of(const group::GroupFiles& files, const Store& store, const Topic& topic, int partition, Offset next,
                            std::string_view metadata) {
  const auto where = place(files.name(), topic.name, partition);
  // One that has the claim, but is not in the file yet, waits for the lock that a commit holds, and reads the position then.
  if (const auto owner = files.owner(topic.name, partition); owner && !owner->id.empty() && owner->commits) {
    throw Error(ErrorCode::busy, where + ": consumed by " + group::describe(*owner) + ", which commits by itself");
  }
  CommitCheck check;
  if (auto stored = files.offset(topic.name, partition)) check.file = *std::move(stored);
  std::string present = "there is no position";
  Offset start, end;
  std::size_t cuts = 0;
  if (check.file.offset && check.file.topic_id == topic.id) {
    const auto checked = group::check_position(check.file, store, topic, partition);
    const auto& at = checked.position;
    check.position = at;
    check.is_there_already = next == at.offset && at.offset == at.committed;
    if (check.is_there_already) return check;
    present = "the position is " + std::to_string(at.offset.value);
    if (next < at.offset) {
      throw Error(ErrorCode::refused, where + ": " + present + ", beyond " + std::to_string(next.value) +
                                          "; a commit only moves forward (reset-offset moves anywhere)");
    }
    start = at.start;
    end = at.end;
    cuts = checked.cuts;
  } else {
    PartitionReader reader(store, topic, partition);
    start = reader.start();
    end = reader.end();
    cuts = group::cuts_of(topic, partition, store.on_network());
  }
  if (next < start || next > end) {
    throw Error(ErrorCode::offset_out_of_range,
                where + ": offset " + std::to_string(next.value) +
                    (next < start ? " is below the log start offset " + std::to_string(start.value)
                                  : " is beyond the end offset " + std::to_string(end.value)) +
                    "; " + present);
  }
  check.file.offset = next;
  check.file.topic_id = topic.id;
  check.file.leader_epoch = no_epoch;
  check.file.cuts = cuts;
  check.file.committed_at = os::clock().now();
  check.file.metadata = metadata;
  return check;
}

}  // namespace

std::optional<GroupPosition> Group::check_commit(const Store& store, std::string_view group, const Topic& topic, int partition,
                                                 Offset next, std::string_view metadata) {
  require_valid_group_name(group);
  require_valid_commit(topic, partition, metadata);
  const group::GroupFiles files(std::string(group), format::group_path(store.directory(), group), store.on_network());
  files.check_offset_lock(topic.name, partition);
  return check_commit_of(files, store, topic, partition, next, metadata).position;
}

void Group::commit(const Store& store, const Topic& topic, int partition, Offset next, std::string_view metadata,
                   std::optional<std::chrono::milliseconds> lock_timeout) const {
  require_valid_commit(topic, partition, metadata);
  const group::GroupFiles files(name_, directory_, network_);
  os::LockWait wait;
  wait.timeout = lock_timeout;
  const auto lock = files.lock_offset(topic.name, partition, wait);
  group::require_current(topic);
  const auto check = check_commit_of(files, store, topic, partition, next, metadata);
  // What a member has stored need not be on stable storage yet.
  if (!check.is_there_already || !check.file.member.empty()) files.store_offset(lock, check.file, true);
}

class GroupChange::Impl {
 public:
  Impl(group::GroupFiles files, std::optional<std::chrono::milliseconds> lock_timeout) : files_(std::move(files)) {
    wait_.timeout = lock_timeout;
    lock_.emplace(files_.lock(wait_));
  }

  void require_no_owner(const std::string& topic) {
    for (const auto& member : members()) {
      const bool concerned = std::any_of(member.assigned.begin(), member.assigned.end(),
                                         [&](const TopicPartition& assigned) { return assigned.topic == topic; });
      if (concerned) fail_busy("topic \"" + topic + "\" is consumed by ", member);
    }
    // A member that was stopped may hold what is no longer assigned to it.
    for (const auto& name : names_in(format::topic_claims_path(files_.directory(), topic))) {
      const auto partition = format::parse_partition_name(name, format::lock_suffix);
      if (!partition) continue;
      try {
        require_unclaimed(topic, *partition);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::busy) throw;  // else a claim that cannot be looked at: the matter of that partition alone
      }
    }
  }

  void require_no_members() {
    if (!members().empty()) fail_busy("it has a live member: ", members().front());
  }

  void reset(const Topic& topic, int partition, Offset offset) {
    require_partition(topic, partition);
    require_free(topic.name);
    const auto lock = files_.lock_offset(topic.name, partition, wait_);
    require_unclaimed(topic.name, partition);
    group::require_current(topic);
    const auto cuts = group::cuts_of(topic, partition, files_.on_network());
    files_.store_offset(
        lock, {offset, topic.id, no_epoch, cuts, os::clock().now(), {}, {}, is_path_synced(topic.name, partition)}, true);
  }

  bool remove_offset(const std::string& topic, int partition) {
    require_free(topic);
    if (!os::status_of_link(format::offset_file_path(files_.directory(), topic, partition))) return false;
    const auto lock = files_.lock_offset(topic, partition, wait_);
    require_unclaimed(topic, partition);
    return files_.remove_offset(lock);
  }

  void remove_group() {
    require_no_members();
    const auto& directory = files_.directory();
    const auto groups = directory.substr(0, directory.rfind('/'));
    const auto trash = format::trash_path(groups.substr(0, groups.rfind('/')));
    os::make_directories(trash);
    const auto trashed = trash + '/' + format::unique_name(files_.name());
    os::rename_path(directory, trashed);
    os::sync_directory(groups);
    os::remove_tree(trashed);
  }

 private:
  [[noreturn]] void fail_busy(const std::string& what, const MemberInfo& member) const {
    throw Error(ErrorCode::busy, "group \"" + files_.name() + "\": " + what + group::describe(member));
  }

  // The file may be damaged: a reset is what mends it.
  bool is_path_synced(const std::string& topic, int partition) const {
    try {
      const auto file = files_.offset(topic, partition);
      return file && file->path_synced;
    } catch (const Error&) {
      return false;
    }
  }

  // The live ones. Nobody joins meanwhile.
  const std::vector<MemberInfo>& members() {
    if (!members_) members_ = files_.live_members();
    return *members_;
  }

  // Under the offset lock. A member claims first and asks for that lock then, to read the position: one that is not seen here
  // reads what we write.
  void require_unclaimed(const std::string& topic, int partition) const {
    const auto owner = files_.owner(topic, partition);
    if (owner) fail_busy(topic + ":" + std::to_string(partition) + " is consumed by ", *owner);
  }

  // Once nobody owned a partition of the topic, nobody does as long as group.lock is held: members look at the assignment once
  // more when they have taken a claim.
  void require_free(const std::string& topic) {
    if (std::find(free_.begin(), free_.end(), topic) != free_.end()) return;
    require_no_owner(topic);
    free_.push_back(topic);
  }

  group::GroupFiles files_;
  os::LockWait wait_;
  std::optional<group::GroupLock> lock_;
  std::optional<std::vector<MemberInfo>> members_;
  std::vector<std::string> free_;
};

GroupChange::GroupChange(const Group& group, std::optional<std::chrono::milliseconds> lock_timeout)
    : impl_(std::make_unique<Impl>(group::GroupFiles(group.name_, group.directory_, group.network_), lock_timeout)) {}
GroupChange::~GroupChange() = default;
GroupChange::GroupChange(GroupChange&&) noexcept = default;
GroupChange& GroupChange::operator=(GroupChange&&) noexcept = default;

void GroupChange::check(const Group& group) { os::lock_holder(format::group_lock_path(group.directory_)); }
void GroupChange::check(const Group& group, const std::string& topic, int partition) {
  const group::GroupFiles files(group.name_, group.directory_, group.network_);
  files.owner(topic, partition);
  files.check_offset_lock(topic, partition);
}
void GroupChange::require_no_owner(const std::string& topic) const { impl_->require_no_owner(topic); }
void GroupChange::require_no_members() const { impl_->require_no_members(); }
void GroupChange::reset(const Topic& topic, int partition, Offset offset) { impl_->reset(topic, partition, offset); }
bool GroupChange::remove_offset(const std::string& topic, int partition) { return impl_->remove_offset(topic, partition); }
void GroupChange::remove_group() { impl_->remove_group(); }

}  // namespace partlog

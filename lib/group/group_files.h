// The files of a group's directory: reading, locking and replacing them. What is absent is absent, what is unreadable is an Error
// that names the file and what to do about it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "format/offset_file.h"
#include "group/member_table.h"
#include "os/file_lock.h"
#include "partlog/group.h"
#include "partlog/store.h"

namespace partlog::group {

inline constexpr std::size_t most_table_bytes = 64 << 20;

// group.lock, held.
class GroupLock {
 public:
  // False once others have it: this process was stopped and they passed it by, or this host was away. What was read under it may
  // have changed, and is not to be written.
  bool is_ours() const { return file_.in_place() && (!network_ || guard_.still_held()); }

 private:
  friend class GroupFiles;
  GroupLock(os::FileLock file, os::FileLock::Guard guard, bool network)
      : file_(std::move(file)), guard_(std::move(guard)), network_(network) {}
  os::FileLock file_;
  os::FileLock::Guard guard_;
  bool network_;
};

// The lock in front of an offset file, held.
struct OffsetLock {
  std::string path;  // of the offset file
  os::FileLock::Guard guard;
  std::optional<std::string> found;  // network: what the file held then
};

// Of one group. Knows no more than a path: cheap to make.
class GroupFiles {
 public:
  GroupFiles(std::string name, std::string directory, bool network)
      : name_(std::move(name)), directory_(std::move(directory)), network_(network) {}

  const std::string& name() const { return name_; }
  const std::string& directory() const { return directory_; }
  bool on_network() const { return network_; }

  // group.lock, of the group that now stands at the path. Error(not_found) if there is none.
  GroupLock lock(os::LockWait wait) const;
  // The same for a member, which changes nothing but the table of members, and looks whether the lock is still its own before it
  // does. It passes by a member of this host that was stopped while it had the lock: the file is replaced, and the new one
  // locked. The stopped one finds that out when it goes on. Never anybody else who has the lock, nor a process of another host
  // (over NFS), of which nothing is known.
  GroupLock lock_as_member(os::LockWait wait) const;
  // The lock in front of an offset file; made if absent.
  OffsetLock lock_offset(const std::string& topic, int partition, os::LockWait wait) const;
  // What lock_offset() would throw because of what stands in its way.
  void check_offset_lock(const std::string& topic, int partition) const;
  os::FileLock claim(const std::string& topic, int partition) const;
  os::FileLock member_lock(const std::string& id) const;

  std::optional<format::OffsetFile> offset(const std::string& topic, int partition) const;
  // Error(fenced), and nothing is changed, where this host has lost the lock meanwhile.
  void store_offset(const OffsetLock& lock, format::OffsetFile file, bool durable) const;
  bool remove_offset(const OffsetLock& lock) const;

  // As stored, dead members included.
  MemberTable table() const;
  // Under group.lock. Whole, also where the lock was lost in this very moment: no other member uses the same temporary file.
  void store_table(const MemberTable& table, const std::string& member) const;
  // Whether the process of a member lives (it may be this one). Never where something else stands in the member file's place.
  bool is_alive(const std::string& member) const;
  MemberTable live_table() const;
  // Under group.lock: the live members, none also where the table is damaged but nobody lives who could stand in it.
  std::vector<MemberInfo> live_members() const;
  // The ids of all who have files among the members; none where there is no directory.
  std::vector<std::string> member_files() const;
  // What there is of a dead member.
  void remove_member_files(const std::string& id) const;
  // See Group::owner.
  std::optional<MemberInfo> owner(const std::string& topic, int partition) const;

 private:
  template <class Attempt>
  GroupLock lock_by(Attempt attempt) const;
  bool pass_by(const os::FileLock& lock) const;
  bool is_held_by_stopped_member() const;
  os::FileLock open_lock(const std::string& parent, const std::string& path) const;
  void make_part(const std::string& directory) const;
  void require_no_obstacles(const std::string& parent) const;
  void sync_path() const;
  void forget_what_was_missing(const std::string& topic) const;
  void require_held(const OffsetLock& lock) const;
  [[noreturn]] void fail_deleted() const;

  std::string name_;
  std::string directory_;
  bool network_;
};

// Error(io), which says what to do, if something else than a directory stands there; nothing at all is fine.
void require_no_obstacle(const std::string& directory);

// A committed offset against the log, and how many cuts the log has.
struct CheckedPosition {
  GroupPosition position;
  std::size_t cuts = 0;
};
// Requires an offset and the topic's id in the file.
CheckedPosition check_position(const format::OffsetFile& file, const Store& store, const Topic& topic, int partition);

// Whether the topic of that name still is this one: it may have been deleted, or made anew, since it was looked up. Whoever has
// an offset file locked and finds that it is, may write the topic's id into the file: no later topic's position is there.
bool is_current(const Topic& topic);
// Error(not_found) if it is not.
void require_current(const Topic& topic);

// How many lines the cuts of a partition have.
std::size_t cuts_of(const Topic& topic, int partition, bool network);

// "process 7 on host h (member m)".
std::string describe(const MemberInfo& member);

}  // namespace partlog::group

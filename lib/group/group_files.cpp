#include "group/group_files.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <set>
#include <utility>

#include "format/file_names.h"
#include "format/properties.h"
#include "log/partition_directory.h"
#include "os/directory.h"
#include "os/host.h"
#include "partlog/error.h"
#include "partlog/reader.h"

namespace partlog::group {

namespace {

// The same error, with what to do about it.
Error with_hint(const Error& error, const std::string& hint) {
  return {error.code(), error.what() + ("; " + hint), error.system_error()};
}

// At whether the one who has group.lock was stopped.
constexpr std::chrono::milliseconds between_looks{50};

// None also where it cannot be read: what is the matter is said by others.
std::optional<std::string> text_of(const std::string& path) {
  try {
    return os::read_file(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_permission(const Error& error) { return error.system_error() == EACCES || error.system_error() == EPERM; }

}  // namespace

void GroupFiles::fail_deleted() const { throw Error(ErrorCode::not_found, "group \"" + name_ + "\" was deleted"); }

// Again and again, until an attempt at the file that now stands at the path gives a lock of what still stands there.
template <class Attempt>
GroupLock GroupFiles::lock_by(Attempt attempt) const {
  const auto path = format::group_lock_path(directory_);
  for (;;) {
    try {
      auto file = os::FileLock::open(path, false);
      std::optional<os::FileLock::Guard> guard = attempt(file);
      if (!guard) continue;
      // On a network file system only an open sees what another host has done to the directory.
      if (network_) os::File::open(directory_, os::File::Mode::read);
      if (file.in_place()) return {std::move(file), *std::move(guard), network_};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::not_found) fail_deleted();
      throw;
    }
  }
}

GroupLock GroupFiles::lock(os::LockWait wait) const {
  wait.poll = network_;
  return lock_by([&](const os::FileLock& file) { return file.lock(wait); });
}

GroupLock GroupFiles::lock_as_member(os::LockWait wait) const {
  wait.poll = network_;
  const auto timeout = wait.timeout;
  auto left = timeout;
  return lock_by([&](const os::FileLock& file) -> std::optional<os::FileLock::Guard> {
    wait.timeout = left ? std::min(*left, between_looks) : between_looks;
    if (auto guard = file.try_lock(wait)) return guard;
    if (pass_by(file)) return std::nullopt;
    if (left && *left <= between_looks) file.fail_busy(*timeout);
    if (left) *left -= between_looks;
    return std::nullopt;
  });
}

// The lock stays with whoever has it where it cannot be passed by.
bool GroupFiles::pass_by(const os::FileLock& lock) const {
  // In this order: the path never names a file again that was replaced.
  const auto is_due = [&] { return is_held_by_stopped_member() && lock.in_place(); };
  try {
    return is_due() && os::renew_empty_file(lock.path(), is_due);
  } catch (const Error&) {
    return false;
  }
}

// A member has its member file locked before it asks for group.lock, and until it has let go of it.
bool GroupFiles::is_held_by_stopped_member() const {
  const auto holder = os::lock_holder(format::group_lock_path(directory_));
  if (!holder || *holder == 0 || !os::is_stopped(*holder)) return false;
  const auto ids = member_files();
  const auto part = "-" + std::to_string(*holder) + "-";
  return std::any_of(ids.begin(), ids.end(), [&](const auto& id) {
    return id.find(part) != std::string::npos && os::lock_holder(format::member_lock_path(directory_, id)) == holder;
  });
}

// Made with the directories below the group's, if need be (git keeps no empty ones), but not with the group's, which may be on
// its way out.
os::FileLock GroupFiles::open_lock(const std::string& parent, const std::string& path) const {
  try {
    return os::FileLock::open(path);
  } catch (const Error& error) {
    if (error.system_error() == ENOTDIR) require_no_obstacles(parent);
    if (error.code() != ErrorCode::not_found) throw;
  }
  const auto above = parent.substr(0, parent.rfind('/'));
  if (above != directory_) make_part(above);
  make_part(parent);
  try {
    return os::FileLock::open(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) fail_deleted();
    throw;
  }
}

void GroupFiles::make_part(const std::string& directory) const {
  try {
    os::make_directory(directory);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) fail_deleted();
    if (error.system_error() == ENOTDIR) require_no_obstacles(directory);
    if (error.code() != ErrorCode::already_exists) throw;
  }
}

void GroupFiles::check_offset_lock(const std::string& topic, int partition) const {
  require_no_obstacles(format::topic_offsets_path(directory_, topic));
  os::lock_holder(format::offset_lock_path(directory_, topic, partition));
}

// From the group's directory down to a directory below it.
void GroupFiles::require_no_obstacles(const std::string& parent) const {
  for (auto end = directory_.size(); end != std::string::npos; end = parent.find('/', end + 1)) {
    require_no_obstacle(parent.substr(0, end));
  }
  require_no_obstacle(parent);
}

OffsetLock GroupFiles::lock_offset(const std::string& topic, int partition, os::LockWait wait) const {
  wait.poll = network_;
  const auto file =
      open_lock(format::topic_offsets_path(directory_, topic), format::offset_lock_path(directory_, topic, partition));
  OffsetLock lock{format::offset_file_path(directory_, topic, partition), file.lock(wait), {}};
  if (!file.in_place()) fail_deleted();
  if (network_) {
    forget_what_was_missing(topic);
    lock.found = text_of(lock.path);
  }
  return lock;
}

// That the lock can be had says little, since others may have had it and let go of it. What they did while this host was paused
// or cut off is seen in the file; what they do from here on, see replace_locked_file().
void GroupFiles::require_held(const OffsetLock& lock) const {
  if (!network_ || (lock.guard.still_held() && text_of(lock.path) == lock.found)) return;
  throw Error(ErrorCode::fenced, lock.path + ": lost its lock, and others had it meanwhile (was this host paused or cut off?)");
}

os::FileLock GroupFiles::claim(const std::string& topic, int partition) const {
  return open_lock(format::topic_claims_path(directory_, topic), format::claim_lock_path(directory_, topic, partition));
}

os::FileLock GroupFiles::member_lock(const std::string& id) const {
  return open_lock(format::members_path(directory_), format::member_lock_path(directory_, id));
}

// On a network file system a name that was not there once is not looked for again before its directory is opened anew.
void GroupFiles::forget_what_was_missing(const std::string& topic) const {
  for (const auto& directory : {format::offsets_path(directory_), format::topic_offsets_path(directory_, topic)}) {
    os::File::open_if_exists(directory, os::File::Mode::read);
  }
}

std::optional<format::OffsetFile> GroupFiles::offset(const std::string& topic, int partition) const {
  const auto path = format::offset_file_path(directory_, topic, partition);
  try {
    if (network_) forget_what_was_missing(topic);
    const auto text = os::read_file(path);
    if (text) return format::parse_offset_file(*text, path);
    if (os::status_of_link(path)) throw Error(ErrorCode::damaged, path + ": a symbolic link to a file that is not there");
    // Where something else stands in a directory's place, there is no telling what the positions are.
    require_no_obstacles(format::topic_offsets_path(directory_, topic));
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::damaged) throw with_hint(error, "reset-offset sets the position anew");
    if (error.system_error() == EISDIR) throw with_hint(error, "move the directory away; reset-offset then sets the position");
    if (is_permission(error)) throw with_hint(error, "its owner must give read permission");
    throw;
  }
}

void GroupFiles::sync_path() const {
  const auto groups = directory_.substr(0, directory_.rfind('/'));
  for (const auto& directory : {format::offsets_path(directory_), directory_, groups, groups.substr(0, groups.rfind('/'))}) {
    os::sync_directory(directory);
  }
}

void GroupFiles::store_offset(const OffsetLock& lock, format::OffsetFile file, bool durable) const {
  if (durable && !std::exchange(file.path_synced, true)) sync_path();
  std::function<void()> check;
  if (network_) check = [&] { require_held(lock); };
  os::replace_locked_file(lock.path, format::format_offset_file(file), durable, check);
}

bool GroupFiles::remove_offset(const OffsetLock& lock) const {
  require_held(lock);
  const bool was_there = os::remove_file(lock.path);
  if (was_there) os::sync_directory(lock.path.substr(0, lock.path.rfind('/')));
  return was_there;
}

MemberTable GroupFiles::table() const {
  const auto path = format::group_properties_path(directory_);
  try {
    const auto text = os::read_file(path, most_table_bytes);
    return text ? parse_member_table(*text, path) : MemberTable{};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::damaged) throw with_hint(error, "the next member that joins makes it anew");
    if (error.system_error() == EISDIR) throw with_hint(error, "move the directory away");
    throw;
  }
}

void GroupFiles::store_table(const MemberTable& table, const std::string& member) const {
  os::replace_file_through(format::member_table_path(directory_, member), format::group_properties_path(directory_),
                           format_member_table(table));
}

bool GroupFiles::is_alive(const std::string& member) const {
  const auto path = format::member_lock_path(directory_, member);
  try {
    return os::lock_holder(path).has_value();
  } catch (const Error&) {
    const auto status = os::status_of(path);
    if (!status || status->is_regular) throw;
    return false;
  }
}

MemberTable GroupFiles::live_table() const {
  auto table = this->table();
  std::erase_if(table.members, [&](const MemberInfo& member) { return !is_alive(member.id); });
  return table;
}

std::vector<std::string> GroupFiles::member_files() const {
  std::vector<std::string> names;
  try {
    names = os::list_directory(format::members_path(directory_));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
  }
  std::set<std::string> ids;
  for (const auto& name : names) {
    if (auto id = format::parse_member_lock_name(name)) ids.insert(*std::move(id));
    if (auto id = format::parse_member_table_name(name)) ids.insert(*std::move(id));
  }
  return {ids.begin(), ids.end()};
}

void GroupFiles::remove_member_files(const std::string& id) const {
  os::remove_file(format::member_table_path(directory_, id));
  os::remove_file(format::member_lock_path(directory_, id));
}

std::vector<MemberInfo> GroupFiles::live_members() const {
  try {
    return live_table().members;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::damaged) throw;
    const auto ids = member_files();
    if (std::any_of(ids.begin(), ids.end(), [&](const auto& id) { return is_alive(id); })) throw;
    return {};
  }
}

std::optional<MemberInfo> GroupFiles::owner(const std::string& topic, int partition) const {
  const auto holder = os::lock_holder(format::claim_lock_path(directory_, topic, partition));
  if (!holder) return std::nullopt;
  MemberInfo unknown;
  unknown.pid = *holder;
  if (*holder != 0) unknown.host = os::host_name();  // the kernel knows processes of its own only
  std::optional<format::OffsetFile> file;
  try {
    file = offset(topic, partition);
  } catch (const Error&) {
    return unknown;  // whoever asks for the position will hear of it
  }
  if (!file || file->member.empty() || !is_alive(file->member)) return unknown;
  const auto table = this->table();
  const auto* member = table.find(file->member);
  return member != nullptr ? *member : unknown;
}

// In this order, each being read before what may follow from it: whether the host has restarted, the end of the log, the cuts.
// A writer that starts meanwhile adds its line to the cuts first, so the restart is seen one way or the other.
CheckedPosition check_position(const format::OffsetFile& file, const Store& store, const Topic& topic, int partition) {
  PartitionReader reader(store, topic, partition);
  const log::PartitionDirectory directory(reader.directory(), store.on_network());
  const bool restarted = directory.suspect_if_readable().has_value();
  GroupPosition position{*file.offset, GroupPosition::State::in_log, *file.offset, reader.start(), reader.end()};
  const auto cuts = directory.cuts();
  for (std::size_t i = file.cuts; i < cuts.size(); ++i) position.offset = std::min(position.offset, cuts[i].offset);
  if (restarted) position.offset = std::min(position.offset, position.end);
  using State = GroupPosition::State;
  position.state = position.offset < position.start        ? State::below_start
                   : position.offset > position.end        ? State::past_end
                   : position.offset != position.committed ? State::cut
                                                           : State::in_log;
  return {position, cuts.size()};
}

bool is_current(const Topic& topic) {
  const auto path = format::topic_properties_path(topic.directory);
  const auto text = os::read_file(path);
  if (!text) return false;
  const auto properties = format::parse_properties(*text, path);
  const auto id = properties.find("topic.id");
  return (id == properties.end() ? std::string() : id->second) == topic.id;
}

void require_current(const Topic& topic) {
  if (!is_current(topic)) throw Error(ErrorCode::not_found, "topic \"" + topic.name + "\" was deleted or made anew meanwhile");
}

std::size_t cuts_of(const Topic& topic, int partition, bool network) {
  return log::PartitionDirectory(format::partition_path(topic.directory, partition), network).cuts().size();
}

void require_no_obstacle(const std::string& directory) {
  const auto status = os::status_of(directory);
  if (status && !status->is_directory) throw Error(ErrorCode::io, directory + ": not a directory; move it away", ENOTDIR);
}

std::string describe(const MemberInfo& member) {
  const auto process = member.pid == 0 ? std::string("a process") : "process " + std::to_string(member.pid);
  if (member.id.empty()) return process + (member.pid == 0 ? " on another host" : "");
  return process + " on host " + member.host + " (member " + member.id + ")";
}

}  // namespace partlog::group

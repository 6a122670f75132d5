#include "partlog/group_member.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "format/file_names.h"
#include "group/assignor.h"
#include "group/group_files.h"
#include "os/clock.h"
#include "os/directory.h"
#include "os/host.h"
#include "os/watch.h"

namespace partlog {

namespace {

constexpr std::int64_t look_us = 250'000;     // between two looks at the other members and the topics
constexpr std::int64_t shortest_us = 1'000;   // between two polls that make system calls
constexpr std::int64_t first_try_us = 5'000;  // until a claim in other hands is tried again, doubled each time
constexpr std::int64_t longest_try_us = 50'000;
constexpr std::int64_t unclaimed_us = 400'000;  // that another member may leave a free partition lying which is assigned to it
constexpr std::int64_t unclaimed_look_us = 50'000;  // between two looks at such ones
constexpr std::int64_t first_busy_us = 10'000;      // until a group.lock in other hands is tried again, doubled up to look_us
constexpr std::chrono::milliseconds worth_a_notice{2000};
constexpr std::chrono::milliseconds longest_farewell{1000};  // that a member who leaves waits to say so

std::string address(const TopicPartition& partition) { return partition.topic + ":" + std::to_string(partition.partition); }

// <host>-<pid>-<random>; a host's name may have characters that a file name may not.
std::string new_member_id() {
  constexpr std::string_view digits = "0123456789abcdef";
  auto id = os::host_name();
  for (auto& c : id) {
    if (!format::name_fault(std::string_view(&c, 1)).empty() && c != '.') c = '_';
  }
  id += "-" + std::to_string(os::process_id()) + "-";
  std::random_device source;
  for (int i = 0; i < 12; ++i) id += digits[source() & 15];
  return id;
}

// A topic as it was last looked up, and its properties file then.
struct SubscribedTopic {
  std::optional<Topic> topic;
  bool looked_up = false;  // `file` tells whether it is the same still
  std::optional<os::FileStatus> file;
};

bool is_same_file(const std::optional<os::FileStatus>& a, const std::optional<os::FileStatus>& b) {
  if (!a || !b) return !a && !b;
  return a->id == b->id && a->modified_ms == b->modified_ms && a->size == b->size;
}

// A partition whose claim we hold.
struct Held {
  Topic topic;
  os::FileLock::Guard claim;
  std::string member;  // who we were when it was taken
  bool revoked = false;
};

// A partition of another member that was not seen in its hands since it was assigned to it.
struct Unclaimed {
  std::string member;
  std::optional<std::int64_t> free_since;  // nullopt: in other hands
};

// Of which no more is known.
MemberInfo process(int pid) {
  MemberInfo unknown;
  unknown.pid = pid;
  return unknown;
}

bool is_for_later(const Error& error) { return error.code() == ErrorCode::busy || error.code() == ErrorCode::interrupted; }

}  // namespace

class GroupMember::Impl {
 public:
  Impl(const Store& store, const Group& group, const std::vector<std::string>& topics, GroupMemberOptions options)
      : store_(store), options_(std::move(options)), files_(group.name(), group.directory(), store.on_network()) {
    if (topics.empty()) throw Error(ErrorCode::invalid_argument, "a member of a group reads at least one topic");
    for (const auto& name : topics) subscriptions_[name].topic = store_.topic(name);
    try {
      Group::open_or_create(store_, group.name());
      join();
    } catch (const Error& error) {
      const int reason = error.system_error();
      if (reason != EACCES && reason != EPERM && reason != EROFS) throw;
      throw Error(ErrorCode::refused, "group \"" + group.name() + "\" cannot be joined: " + error.what(), reason);
    }
  }

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() { leave(); }

  const std::string& id() const { return id_; }
  // Made when it is first asked for: taking down what watches a directory costs a process 20 ms at its end.
  int descriptor() {
    if (!watch_) {
      watch_ = std::make_unique<os::WatchDescriptor>(std::vector{files_.directory()}, store_.on_network());
      pending_ = true;  // the table may have changed since it was read
      poll_at_once();
    }
    return watch_->descriptor();
  }
  bool settled() const { return !pending_; }

  Rebalance poll() {
    Rebalance result;
    const auto now = os::clock().monotonic_us();
    if (now < next_poll_) return result;
    next_poll_ = now + shortest_us;
    const bool seen = watch_ && watch_->take_changes();
    const bool changed = std::exchange(pending_, false) || seen;
    const bool look = now >= next_look_;
    if (look) {
      next_look_ = now + look_us;
      look_around();
    }
    if (look || changed) refresh();
    name_revoked(result);
    if (look || now >= next_try_) try_claims(result, look, now);
    if (look || changed || !awaited_since_.empty()) note_awaited(now);
    look_for_unclaimed(look, now);
    const auto next = std::min({pending_ ? now + shortest_us : next_look_, next_try_, next_unclaimed_look_});
    if (watch_) watch_->wake_after(std::chrono::microseconds(next - now));
    return result;
  }

  std::vector<TopicPartition> awaited() const {
    std::vector<TopicPartition> partitions;
    for (const auto& partition : wanted_) {
      const auto held = held_.find(partition);
      const bool is_ours = held != held_.end() && !held->second.revoked;
      if (!is_ours && !failures_.contains(partition)) partitions.push_back(partition);
    }
    return partitions;
  }

  std::vector<AwaitedPartition> obstacles() const {
    std::vector<AwaitedPartition> found;
    const auto now = os::clock().monotonic_us();
    for (const auto& partition : awaited()) found.push_back(obstacle(partition, now));
    return found;
  }

  bool still_owns(const TopicPartition& partition) {
    const auto held = held_.find(partition);
    return held != held_.end() && (!store_.on_network() || held->second.claim.still_held());
  }

  void commit(const TopicPartition& partition, Offset next, std::int32_t leader_epoch, bool durable) {
    const auto& held = held_by_us(partition);
    const auto lock = files_.lock_offset(partition.topic, partition.partition, wait_to_commit());
    auto file = position_to_change(partition, held);
    if ((file.offset && *file.offset >= next) || is_gone(held.topic)) return;
    file.offset = next;
    file.leader_epoch = leader_epoch;
    store_position(lock, partition, held.topic, std::move(file), durable);
  }

  Offset start_at(const TopicPartition& partition, Offset offset, bool durable) {
    const auto& held = held_by_us(partition);
    const auto lock = files_.lock_offset(partition.topic, partition.partition, wait_to_commit());
    auto file = position_to_change(partition, held);
    if (file.offset) return *file.offset;
    if (is_gone(held.topic)) return offset;
    file.offset = offset;
    store_position(lock, partition, held.topic, std::move(file), durable);
    return offset;
  }

  void release(const TopicPartition& partition) {
    if (held_.erase(partition) == 0) return;
    // It may be assigned to us all the same.
    next_try_ = 0;
    poll_at_once();
  }

  // Claims first, so that nobody waits for them; what cannot be written into the table, the others find out from the lock.
  void leave() {
    if (!member_.owns()) return;
    held_.clear();
    kept_.clear();
    wanted_.clear();
    failures_.clear();
    try {
      update(Intent::leave, farewell());
    } catch (const Error&) {
    }
    withdraw();
    member_.unlock();
  }

 private:
  enum class Intent { join, check, leave };

  void poll_at_once() {
    next_poll_ = 0;
    if (watch_) watch_->wake_after(std::chrono::microseconds(0));
  }

  os::LockWait wait() const {
    os::LockWait wait;
    wait.timeout = options_.lock_timeout;
    wait.stop = options_.stop;
    return wait;
  }
  // To commit and to leave once the stop flag is raised: that may take its turn behind others who do the same, but not for ever
  // behind somebody who was stopped.
  os::LockWait farewell() const {
    os::LockWait wait;
    wait.timeout = std::min(options_.lock_timeout.value_or(longest_farewell), longest_farewell);
    return wait;
  }
  os::LockWait wait_to_commit() const { return options_.stop != nullptr && *options_.stop ? farewell() : wait(); }
  // Nobody who was stopped in the midst of something may stop us, too.
  static os::LockWait no_wait() {
    os::LockWait wait;
    wait.timeout = std::chrono::milliseconds(0);
    return wait;
  }

  void notice(const std::string& text) const {
    if (options_.notice) options_.notice("group \"" + files_.name() + "\": " + text);
  }

  [[noreturn]] void fail_fenced(const TopicPartition& partition, const std::string& why) const {
    throw Error(ErrorCode::fenced,
                "group \"" + files_.name() + "\", " + address(partition) + ": member " + id_ + " may not commit: " + why);
  }

  const Held& held_by_us(const TopicPartition& partition) {
    if (!still_owns(partition)) fail_fenced(partition, "its claim is not ours");
    return held_.at(partition);
  }

  // Under the offset lock.
  format::OffsetFile position_to_change(const TopicPartition& partition, const Held& held) const {
    auto file = files_.offset(partition.topic, partition.partition);
    if (!file || file->member != held.member) fail_fenced(partition, "it is another member's by now");
    if (file->topic_id != held.topic.id) fail_fenced(partition, "the topic was made anew");
    return *std::move(file);
  }

  // One that cannot be looked up is not: as long as the offset file has its id, no later topic's position is there.
  static bool is_gone(const Topic& topic) {
    try {
      return !group::is_current(topic);
    } catch (const Error&) {
      return false;
    }
  }

  void store_position(const group::OffsetLock& lock, const TopicPartition& partition, const Topic& topic, format::OffsetFile file,
                      bool durable) const {
    file.cuts = group::cuts_of(topic, partition.partition, store_.on_network());
    file.committed_at = os::clock().now();
    file.metadata.clear();
    files_.store_offset(lock, std::move(file), durable);
  }

  AwaitedPartition obstacle(const TopicPartition& partition, std::int64_t now) const {
    AwaitedPartition result{partition, {}, {}, false, address(partition) + " is free by now"};
    if (const auto since = awaited_since_.find(partition); since != awaited_since_.end()) {
      result.waited = std::chrono::milliseconds((now - since->second) / 1000);
    }
    result.holder = files_.owner(partition.topic, partition.partition);
    if (result.holder) {
      result.message = address(partition) + " is held by " + group::describe(*result.holder);
      return result;
    }
    const auto path = format::offset_lock_path(files_.directory(), partition.topic, partition.partition);
    const auto holder = os::lock_holder(path);
    if (!holder) return result;
    result.position_only = true;
    result.holder = process(*holder);
    result.message = path + ": lock held by " + group::describe(*result.holder);
    return result;
  }

  void note_awaited(std::int64_t now) {
    const auto partitions = awaited();
    std::erase_if(awaited_since_,
                  [&](const auto& entry) { return !std::binary_search(partitions.begin(), partitions.end(), entry.first); });
    for (const auto& partition : partitions) awaited_since_.emplace(partition, now);
  }

  // The member file comes first: who is stopped while it has group.lock is told by it as a member, and passed by.
  void join() {
    try {
      become_new_member();
      wait_to_join();
    } catch (...) {
      withdraw();
      throw;
    }
  }

  // Whom we wait for is said after a while.
  void wait_to_join() {
    auto patience = wait();
    if (!patience.timeout || *patience.timeout > worth_a_notice) {
      const auto left = patience.timeout ? std::optional(*patience.timeout - worth_a_notice) : std::nullopt;
      patience.timeout = worth_a_notice;
      try {
        return update(Intent::join, patience);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::busy) throw;
      }
      patience.timeout = left;
      const auto path = format::group_lock_path(files_.directory());
      if (const auto holder = os::lock_holder(path))
        notice(path + ": lock held by " + group::describe(process(*holder)) + "; waiting for it");
    }
    update(Intent::join, patience);
  }

  // Once we are not in the table, nobody misses the file; where we still are, others find us dead. Not before group.lock is free:
  // see join(). Whoever finds it without us sweeps it.
  void withdraw() {
    if (!member_file_) return;
    try {
      os::remove_file(member_file_->path());
    } catch (const Error&) {
    }
  }

  // Changes the table, under group.lock, if there is something to change: dead members are dropped, we enter or leave, and the
  // partitions are assigned anew.
  void update(Intent intent, const os::LockWait& wait) {
    while (!try_update(intent, wait)) {
    }
  }

  // False, and nothing was written, if group.lock was given to others meanwhile, because we were stopped. They may still get it
  // between the last look at it and the rename that puts our table in place of theirs. That costs a rebalance and no more, since
  // it is the claims that count: whoever is missing enters again, whoever is dead is dropped, and generations go on rising.
  bool try_update(Intent intent, const os::LockWait& wait) {
    const auto lock = files_.lock_as_member(wait);
    auto table = stored_table();
    bool changed = drop_dead(table);
    if (intent == Intent::leave) {
      changed |= std::erase_if(table.members, [&](const auto& member) { return member.id == id_; }) > 0;
    } else if (intent == Intent::join || table.find(id_) == nullptr) {
      enter(table, intent);
      changed = true;
    } else if (responds_again(table)) {
      table.find(id_)->responds = true;
      changed = true;
    }
    changed |= refresh_topics(table);
    if (!changed) return true;
    assign(table);
    table.generation = std::max(table.generation, table_.generation) + 1;
    if (!lock.is_ours()) return false;
    files_.store_table(table, id_);
    sweep_member_files(table);
    return true;
  }

  // Others have got what we did not take, because we were stopped. Not if we could not.
  bool responds_again(const group::MemberTable& table) const {
    const auto* self = table.find(id_);
    return self != nullptr && !self->responds && beyond_us_.empty();
  }

  group::MemberTable stored_table() const {
    try {
      return files_.table();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::damaged) throw;
      notice(std::string("the table of members is made anew: ") + error.what());
      return {};  // those who live find that they are missing, and enter themselves again
    }
  }

  bool drop_dead(group::MemberTable& table) const {
    return std::erase_if(table.members, [&](const auto& member) { return !files_.is_alive(member.id); }) > 0;
  }

  void enter(group::MemberTable& table, Intent intent) {
    const auto assignor = group::name_of(options_.assignor);
    if (table.members.empty()) table.assignor = assignor;
    if (intent == Intent::join && table.assignor != assignor) {
      throw Error(ErrorCode::refused, "group \"" + files_.name() + "\": its members use the assignor " + table.assignor +
                                          ", not " + std::string(assignor) + "; " + group::describe(table.members.front()));
    }
    // Our file may be gone: somebody found it before it was locked, or this host was away for so long that another one took us
    // for dead. Ids are never used again.
    if (!member_file_->in_place() || (store_.on_network() && !member_.still_held())) become_new_member();
    MemberInfo self;
    self.id = id_;
    self.host = os::host_name();
    self.pid = os::process_id();
    self.since = os::clock().now();
    self.commits = options_.commits;
    for (const auto& [name, subscription] : subscriptions_) self.topics.push_back(name);
    table.members.push_back(std::move(self));
    std::sort(table.members.begin(), table.members.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  }

  // Outside of group.lock the file may be taken for a dead member's before it is locked; enter() looks whether it was.
  void become_new_member() {
    member_.unlock();
    id_ = new_member_id();
    member_file_ = files_.member_lock(id_);
    auto guard = member_file_->try_lock();
    if (!guard) throw Error(ErrorCode::busy, member_file_->path() + ": locked by somebody else");
    member_ = std::move(*guard);
  }

  // Member files of processes that died, or were killed before they stood in the table. What cannot be swept is in nobody's way.
  void sweep_member_files(const group::MemberTable& table) {
    for (const auto& id : files_.member_files()) {
      if (id == id_ || table.find(id) != nullptr) continue;
      try {
        if (!files_.is_alive(id)) files_.remove_member_files(id);
      } catch (const Error& error) {
        if (unswept_.insert(id).second) notice(std::string("what is no member's stays among the members: ") + error.what());
      }
    }
  }

  // The topics of all members as they are now; true if they are not as the table says.
  bool refresh_topics(group::MemberTable& table) const {
    std::map<std::string, group::KnownTopic> now;
    for (const auto& member : table.members) {
      for (const auto& name : member.topics) {
        if (now.contains(name)) continue;
        try {
          if (const auto topic = store_.find_topic(name)) now[name] = {topic->id, topic->partitions};
        } catch (const Error&) {
          // It cannot be read now; whoever tries to will say so.
          if (const auto known = table.topics.find(name); known != table.topics.end()) now.insert(*known);
        }
      }
    }
    if (now == table.topics) return false;
    table.topics = std::move(now);
    return true;
  }

  void assign(group::MemberTable& table) const {
    std::vector<group::Subscription> members;
    members.reserve(table.members.size());
    for (const auto& member : table.members) {
      if (member.responds) members.push_back({member.id, member.topics, member.assigned});
    }
    group::PartitionCounts counts;
    std::size_t all = 0;
    for (const auto& [name, topic] : table.topics) {
      counts[name] = topic.partitions;
      all += static_cast<std::size_t>(topic.partitions);
    }
    if (all > group::most_partitions) {
      throw Error(ErrorCode::refused, "group \"" + files_.name() + "\": its topics have " + std::to_string(all) +
                                          " partitions together; the most is " + std::to_string(group::most_partitions));
    }
    const auto withheld = keep_assigned(table, counts);
    auto assignment = group::assign(options_.assignor, std::move(members), counts, withheld);
    for (auto& member : table.members) {
      if (member.responds) member.assigned = std::move(assignment[member.id]);
    }
  }

  // Who does not respond gets nothing new, and loses nothing of what it had but what is gone.
  static group::Withheld keep_assigned(group::MemberTable& table, const group::PartitionCounts& counts) {
    group::Withheld kept;
    for (auto& member : table.members) {
      if (member.responds) continue;
      std::erase_if(member.assigned, [&](const auto& partition) {
        const auto topic = counts.find(partition.topic);
        return topic == counts.end() || partition.partition >= topic->second;
      });
      kept.insert(member.assigned.begin(), member.assigned.end());
    }
    return kept;
  }

  // Finds dead members, and topics that are not as the table says.
  void look_around() {
    read_table();
    bool stale = false;
    for (auto& [name, subscription] : subscriptions_) {
      look_up(name, subscription);
      const auto known = table_.topics.find(name);
      const auto& topic = subscription.topic;
      const bool same =
          known == table_.topics.end() ? !topic : topic && known->second == group::KnownTopic{topic->id, topic->partitions};
      stale |= !same;
    }
    stale |= std::any_of(table_.members.begin(), table_.members.end(),
                         [&](const auto& member) { return member.id != id_ && !files_.is_alive(member.id); });
    if (stale || responds_again(table_)) update_soon();
  }

  void look_up(const std::string& name, SubscribedTopic& subscription) const {
    const auto path = format::topic_properties_path(format::topic_path(store_.directory(), name));
    auto file = os::status_of(path);
    if (subscription.looked_up && is_same_file(file, subscription.file)) return;
    try {
      auto topic = store_.find_topic(name);
      const bool was_there = subscription.topic.has_value();
      if (was_there && !topic) notice("topic \"" + name + "\" was deleted");
      if (was_there && topic && topic->id != subscription.topic->id) notice("topic \"" + name + "\" was deleted and made anew");
      subscription.topic = std::move(topic);
      subscription.file = file;
      subscription.looked_up = true;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted) throw;
      // Looked up again the next time.
    }
  }

  void update_soon() {
    try {
      update(Intent::check, no_wait());
      busy_us_ = first_busy_us;
    } catch (const Error& error) {
      if (!is_for_later(error)) throw;
      next_look_ = os::clock().monotonic_us() + busy_us_;
      busy_us_ = std::min(2 * busy_us_, look_us);
    }
  }

  // Reads the table; we are in it afterwards, unless somebody has it locked. Then nobody can give away what is ours either.
  void refresh() {
    read_table();
    if (table_.find(id_) == nullptr) {
      update_soon();
      read_table();
      if (table_.find(id_) == nullptr) return;
    }
    std::set<TopicPartition> wanted;
    if (const auto* self = table_.find(id_)) {
      for (const auto& partition : self->assigned) {
        const auto& topic = subscriptions_[partition.topic].topic;
        if (topic && partition.partition < topic->partitions) wanted.insert(partition);
      }
    }
    if (wanted != wanted_) {
      wanted_ = std::move(wanted);
      std::erase_if(claims_, [&](const auto& claim) { return !wanted_.contains(claim.first); });
      std::erase_if(kept_, [&](const auto& claim) { return !wanted_.contains(claim.first); });
      std::erase_if(failures_, [&](const auto& failure) { return !wanted_.contains(failure.first); });
      next_try_ = 0;
      try_us_ = first_try_us;
    }
  }

  // False if nothing has changed.
  bool read_table() {
    const auto path = format::group_properties_path(files_.directory());
    const auto generation = table_.generation;
    try {
      const auto text = os::read_file(path, group::most_table_bytes);
      if (text && text == text_) return false;
      text_ = text;
      unclaimed_listed_ = false;
      table_ = text ? group::parse_member_table(*text, path) : group::MemberTable{};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::damaged) throw;
      table_ = {};
    }
    table_.generation = std::max(table_.generation, generation);
    return true;
  }

  void name_revoked(Rebalance& result) {
    for (auto& [partition, held] : held_) {
      const auto& topic = subscriptions_[partition.topic].topic;
      const bool ours = wanted_.contains(partition) && topic && topic->id == held.topic.id && held.member == id_;
      if (ours || held.revoked) continue;
      held.revoked = true;
      result.revoked.push_back(partition);
    }
  }

  // A member that was stopped may have got partitions since, such as a dead one's. It claims none of them until it goes on, so
  // somebody else has to. What it has claimed is its own.
  void look_for_unclaimed(bool look, std::int64_t now) {
    if (!std::exchange(unclaimed_listed_, true))
      list_unclaimed();
    else if (!look && now < next_unclaimed_look_)
      return;
    std::vector<TopicPartition> left_lying;
    bool any_free = false;
    for (auto entry = unclaimed_.begin(); entry != unclaimed_.end();) {
      if (!is_unclaimed(entry->first, entry->second, now)) {
        entry = unclaimed_.erase(entry);
        continue;
      }
      const auto& since = entry->second.free_since;
      any_free = any_free || since.has_value();
      if (since && now - *since >= unclaimed_us) left_lying.push_back(entry->first);
      ++entry;
    }
    next_unclaimed_look_ = any_free ? now + unclaimed_look_us : std::numeric_limits<std::int64_t>::max();
    if (!left_lying.empty()) take_over(left_lying);
  }

  void list_unclaimed() {
    const auto before = std::exchange(unclaimed_, {});
    for (const auto& member : table_.members) {
      if (member.id == id_) continue;
      for (const auto& partition : member.assigned) {
        const auto subscription = subscriptions_.find(partition.topic);
        if (subscription == subscriptions_.end() || !subscription->second.topic || beyond_us_.contains(partition)) continue;
        const auto known = before.find(partition);
        const bool same = known != before.end() && known->second.member == member.id;
        unclaimed_.emplace(partition, same ? known->second : Unclaimed{member.id, {}});
      }
    }
  }

  // What cannot be looked at is its owner's to tell.
  bool is_unclaimed(const TopicPartition& partition, Unclaimed& unclaimed, std::int64_t now) const {
    try {
      const auto holder = os::lock_holder(format::claim_lock_path(files_.directory(), partition.topic, partition.partition));
      if (!holder) {
        if (!unclaimed.free_since) unclaimed.free_since = now;
        return true;
      }
      unclaimed.free_since.reset();
      if (*holder != 0) return *holder != table_.find(unclaimed.member)->pid;
      const auto file = files_.offset(partition.topic, partition.partition);
      return !file || file->member != unclaimed.member;
    } catch (const Error&) {
      return false;
    }
  }

  // To us: whether others respond is not known.
  void take_over(const std::vector<TopicPartition>& partitions) {
    try {
      const auto lock = files_.lock_as_member(no_wait());
      if (read_table()) {
        pending_ = true;  // it is not the one by which they lie there
        return;
      }
      auto table = table_;
      auto* self = table.find(id_);
      if (self == nullptr) return;
      for (const auto& partition : partitions) {
        auto* owner = table.find(unclaimed_.at(partition).member);
        if (owner == nullptr || std::erase(owner->assigned, partition) == 0) continue;
        owner->responds = false;
        self->assigned.push_back(partition);
      }
      std::sort(self->assigned.begin(), self->assigned.end());
      ++table.generation;
      if (!lock.is_ours()) return;
      files_.store_table(table, id_);
      pending_ = true;
      poll_at_once();
    } catch (const Error& error) {
      if (!is_for_later(error) && error.code() != ErrorCode::damaged) throw;
    }
  }

  // Claims what is free of what is assigned to us. The table is read again in between: who holds group.lock and found us neither
  // in the assignment nor with a claim may rely on that we take none.
  void try_claims(Rebalance& result, bool with_failures, std::int64_t now) {
    std::map<TopicPartition, os::FileLock::Guard> taken;
    for (const auto& partition : wanted_) {
      if (held_.contains(partition) || (failures_.contains(partition) && !with_failures)) continue;
      report_failure(result, partition, [&] {
        if (auto guard = claim(partition))
          taken.emplace(partition, *std::move(guard));
        else
          failures_.erase(partition);
      });
    }
    if (!taken.empty() && read_table()) {
      // A new one: what was taken is given back, and tried again at once where it is still ours.
      taken.clear();
      pending_ = true;
    }
    for (auto& [partition, guard] : taken) {
      report_failure(result, partition, [&] {
        if (auto assigned = take(partition, guard)) {
          result.assigned.push_back(*std::move(assigned));
          claims_.erase(partition);
          failures_.erase(partition);
          beyond_us_.erase(partition);
        } else {
          look_again(partition.topic);
        }
      });
      if (guard.owns() && failures_.contains(partition)) kept_.emplace(partition, std::move(guard));
    }
    const bool waiting = !awaited().empty();
    if (!taken.empty()) try_us_ = first_try_us;
    next_try_ = waiting ? now + try_us_ : std::numeric_limits<std::int64_t>::max();
    if (waiting) try_us_ = std::min(2 * try_us_, longest_try_us);
  }

  // nullopt: it is in other hands.
  std::optional<os::FileLock::Guard> claim(const TopicPartition& partition) {
    if (auto kept = kept_.extract(partition); !kept.empty()) {
      if (!store_.on_network() || kept.mapped().still_held()) return std::move(kept.mapped());
    }
    auto lock = claims_.find(partition);
    if (lock == claims_.end()) lock = claims_.emplace(partition, files_.claim(partition.topic, partition.partition)).first;
    return lock->second.try_lock();
  }

  // A partition whose files are broken must not keep the others from being consumed. The cause is named again only if it is
  // another one, or if there was none meanwhile.
  template <class Action>
  void report_failure(Rebalance& result, const TopicPartition& partition, Action action) {
    try {
      action();
    } catch (const Error& error) {
      if (is_for_later(error)) return;
      beyond_us_.insert(partition);
      auto& known = failures_[partition];
      if (known == error.what()) return;
      known = error.what();
      result.failed.push_back({partition, error});
    }
  }

  // The topic is not the one that we know.
  void look_again(const std::string& topic) {
    subscriptions_[topic].looked_up = false;
    next_look_ = 0;
    pending_ = true;
  }

  // We are the one who may commit from here on; the position is read only now. nullopt, and nothing is changed, if the topic was
  // deleted or made anew since we looked: another member may have committed in the new one.
  // The claim is left with the caller unless the partition is ours.
  std::optional<AssignedPartition> take(const TopicPartition& partition, os::FileLock::Guard& claim) {
    const auto& topic = *subscriptions_[partition.topic].topic;
    const auto lock = files_.lock_offset(partition.topic, partition.partition, no_wait());
    auto stored = files_.offset(partition.topic, partition.partition);
    if (!group::is_current(topic)) return std::nullopt;
    format::OffsetFile file;
    AssignedPartition assigned{topic, partition.partition, {}};
    if (stored && stored->topic_id == topic.id) {
      file = *stored;
    } else {
      if (stored && stored->offset) {
        notice(address(partition) + " has no position: the topic was made anew since offset " +
               std::to_string(stored->offset->value) + " was committed");
      }
      file.topic_id = topic.id;
      file.path_synced = stored && stored->path_synced;
    }
    file.member = id_;
    if (file.offset) {
      const auto checked = group::check_position(file, store_, topic, partition.partition);
      assigned.position = checked.position;
      if (checked.position.offset != *file.offset) {
        // What lay before the committed offset is gone. A commit only moves forward from what the file says, so it says where the
        // log ended.
        file.offset = checked.position.offset;
        file.cuts = checked.cuts;
        file.leader_epoch = no_epoch;
        file.committed_at = os::clock().now();
      }
    } else {
      // A commit counts them: what cannot be read must not be found out after everything was delivered.
      group::cuts_of(topic, partition.partition, store_.on_network());
    }
    if (!stored || *stored != file) files_.store_offset(lock, file, false);
    held_.insert_or_assign(partition, Held{topic, std::move(claim), id_, false});
    return assigned;
  }

  Store store_;
  GroupMemberOptions options_;
  group::GroupFiles files_;
  std::string id_;
  std::optional<os::FileLock> member_file_;
  os::FileLock::Guard member_;
  std::unique_ptr<os::WatchDescriptor> watch_;  // none: nobody waits
  std::map<std::string, SubscribedTopic> subscriptions_;

  std::optional<std::string> text_;  // of the table as last read
  group::MemberTable table_;
  std::set<TopicPartition> wanted_;  // assigned to us
  std::map<TopicPartition, Held> held_;
  std::map<TopicPartition, os::FileLock> claims_;       // opened, in other hands
  std::map<TopicPartition, os::FileLock::Guard> kept_;  // claims of partitions whose position could not be read or written
  std::map<TopicPartition, std::string> failures_;      // why a partition could not be taken
  std::set<TopicPartition> beyond_us_;                  // failed when they were assigned to us last
  std::map<TopicPartition, std::int64_t> awaited_since_;
  std::map<TopicPartition, Unclaimed> unclaimed_;
  bool unclaimed_listed_ = false;  // by the table as last read
  std::set<std::string> unswept_;
  bool pending_ = true;  // poll() has something to do
  std::int64_t next_poll_ = 0;
  std::int64_t next_look_ = 0;
  std::int64_t next_try_ = 0;
  std::int64_t next_unclaimed_look_ = 0;
  std::int64_t try_us_ = first_try_us;
  std::int64_t busy_us_ = first_busy_us;
};

GroupMember::GroupMember(const Store& store, const Group& group, const std::vector<std::string>& topics,
                         GroupMemberOptions options)
    : impl_(std::make_unique<Impl>(store, group, topics, std::move(options))) {}
GroupMember::~GroupMember() = default;
GroupMember::GroupMember(GroupMember&&) noexcept = default;
GroupMember& GroupMember::operator=(GroupMember&&) noexcept = default;

const std::string& GroupMember::id() const { return impl_->id(); }
Rebalance GroupMember::poll() { return impl_->poll(); }
bool GroupMember::settled() const { return impl_->settled(); }
std::vector<TopicPartition> GroupMember::awaited() const { return impl_->awaited(); }
int GroupMember::descriptor() const { return impl_->descriptor(); }
std::vector<AwaitedPartition> GroupMember::obstacles() const { return impl_->obstacles(); }
bool GroupMember::still_owns(const TopicPartition& partition) { return impl_->still_owns(partition); }
void GroupMember::commit(const TopicPartition& partition, Offset next, std::int32_t leader_epoch, bool durable) {
  impl_->commit(partition, next, leader_epoch, durable);
}
Offset GroupMember::start_at(const TopicPartition& partition, Offset offset, bool durable) {
  return impl_->start_at(partition, offset, durable);
}
void GroupMember::release(const TopicPartition& partition) { impl_->release(partition); }
void GroupMember::leave() { impl_->leave(); }

}  // namespace partlog

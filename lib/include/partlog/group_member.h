// Membership of a consumer group: which partitions are ours now.
//
// A member lives as long as its process holds the lock on its member file: the kernel lets go of it the moment the process dies,
// and another member takes its partitions over. No server, no heartbeat; a stopped process keeps what it has. Members learn of
// each other through group.properties and by asking the kernel who holds the others' locks, every 250 ms.
//
// Whoever joins, leaves or finds a dead member computes the assignment (Kafka's RangeAssignor, RoundRobinAssignor, and a sticky
// one that moves as few partitions as possible, as KIP-54 and KIP-429 want it); partitions that stay with a member are not
// interrupted. What counts is not the table but the claim: a lock per partition held by whoever consumes it. What a member leaves
// unclaimed for 400 ms, though it is free, goes to another one: whoever is busy for longer should poll() in between.
//
// Descriptors: one for the member, one for each partition that is ours or awaited (its claim), three more once somebody
// waits on descriptor(), and a few for a moment: one file at a time is read, and a commit opens the lock of the position
// and the file that replaces it. Reading the partitions comes on top.
//
// A GroupMember belongs to one thread. It is left by leave() or by the destructor, which commits nothing. A process may have
// several members, also of one group.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/group.h"
#include "partlog/store.h"

namespace partlog {

enum class Assignor { range, roundrobin, sticky };

struct GroupMemberOptions {
  Assignor assignor = Assignor::sticky;
  bool commits = true;  // false: scripts may commit for this member
  std::optional<std::chrono::milliseconds> lock_timeout;
  // See ProducerOptions::stop. To commit and to leave, locks are waited for up to a second even once it is raised.
  const std::atomic<bool>* stop = nullptr;
  Notice notice;
};

// A partition that has become ours, with the position read after it did.
struct AssignedPartition {
  Topic topic;
  int partition = 0;
  std::optional<GroupPosition> position;  // nullopt: the group has none
};

// A partition that is assigned to us and free, but whose files could not be read or written.
struct FailedPartition {
  TopicPartition partition;
  Error error;
};

// A partition that is assigned to us and not ours yet, and who stands in the way.
struct AwaitedPartition {
  TopicPartition partition;
  std::chrono::milliseconds waited{0};  // since poll() first did not get it
  // As far as it is known: process 0 on another host, an empty id where the holder has only just come. nullopt: free by now.
  std::optional<MemberInfo> holder;
  bool position_only = false;  // the holder has the lock of the position, not the partition
  std::string message;         // one line that says all this, for people
};

struct Rebalance {
  // To be given up: finish the batch in hand, commit, release().
  std::vector<TopicPartition> revoked;
  // Ours from now on. They are in no other member's hands.
  std::vector<AssignedPartition> assigned;
  // Not ours because of an Error (a damaged offset file, too many open files); the others are not affected. Tried again every
  // 250 ms, and named again only once the Error is another one.
  std::vector<FailedPartition> failed;
};

class PARTLOG_EXPORT GroupMember {
 public:
  // Joins; the group is made if it is absent. Error(not_found) for a topic that does not exist; Error(refused) where nothing may
  // be written or live members use another assignor; Error(busy) after the time-out.
  GroupMember(const Store& store, const Group& group, const std::vector<std::string>& topics, GroupMemberOptions options);
  ~GroupMember();
  GroupMember(GroupMember&&) noexcept;
  GroupMember& operator=(GroupMember&&) noexcept;

  // Another one after this host was away for so long (a network file system) that its locks were given to others.
  const std::string& id() const;

  // Looks for changes and tries to claim what is assigned to us and not yet ours; never waits for a lock. Costs no system call
  // when called again within a millisecond, and two (none before the first call of descriptor()) unless something changed, 250 ms
  // are over, or a partition is awaited (tried every 5 to 50 ms). A revoked partition is named once and stays ours until
  // release(). A partition of a topic that was deleted or made anew is revoked, with a notice, and in the latter case assigned
  // again with the new Topic.
  Rebalance poll();
  // False: poll() has something to do at once, so do not wait. True after each poll() but while changes come in.
  bool settled() const;
  // Partitions assigned to us, as of the last poll(), that are not ours yet because somebody else still holds them, or we have
  // not released them. Those that failed are not among them.
  std::vector<TopicPartition> awaited() const;
  // The same with who holds what; asks the kernel about each. What is to be done about one that takes too long is the caller's to
  // say: poll() never gives up.
  std::vector<AwaitedPartition> obstacles() const;
  // Readable when poll() has something to do: when the group changes (not on a network file system) and when it is time to look.
  // The same at each call; made at the first one, and taking it down costs the process some 20 ms. Who never waits on it, but
  // polls, learns of changes within 250 ms.
  int descriptor() const;

  // On a network file system, where a lease may have lapsed: whether the claim is still ours; asked before records are handed on.
  // Locally true without a system call.
  bool still_owns(const TopicPartition& partition);
  // Moves the position forward; a lower one changes nothing, nor does one in a topic that was made anew meanwhile. Survives
  // kill -9 on return; durable only if `durable`. Error(fenced) if, and only if, the partition is no longer ours: its claim lost,
  // or the offset file names another member. After any other Error (the time-out or the stop flag while somebody has the position
  // locked, a full disk, too many open files, a damaged file) it is still ours and the position as it was: try again later.
  void commit(const TopicPartition& partition, Offset next, std::int32_t leader_epoch = no_epoch, bool durable = false);
  // Sets the position where the group has none, so that it is there before the first record is read; for a member that does not
  // commit by itself, too. One that exists is not changed. Returns where the group stands then. Durability and errors as
  // commit().
  Offset start_at(const TopicPartition& partition, Offset offset, bool durable = false);
  // Gives a partition up. One that is still assigned to us is claimed anew by the next poll().
  void release(const TopicPartition& partition);
  // Gives everything up, so that the others take it over at once; durable or not as the commits were. Nothing else may be called
  // afterwards.
  void leave();

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partlog

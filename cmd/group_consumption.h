// Reads as a member of a group: the partitions that are ours now, from where the group stands, and commits what has arrived.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "arrivals.h"
#include "consumption.h"
#include "delivery.h"
#include "partition_cursor.h"
#include "partlog/group_member.h"

namespace partlog::cmd {

enum class CommitPolicy {
  after,   // what has arrived: at-least-once
  before,  // what is about to be handed on: at-most-once
  none,    // scripts commit
};

struct GroupOptions {
  CommitPolicy commit = CommitPolicy::after;
  std::chrono::milliseconds commit_interval{1000};
  bool follow = false;
  std::optional<std::chrono::milliseconds> idle_timeout;
  PartitionCursor::Options range;                               // reset, reader
  std::size_t share = std::numeric_limits<std::size_t>::max();  // as ConsumptionOptions has it
  GroupMemberOptions member;
};

class GroupConsumption {
 public:
  // The references must outlive it. Failures of single partitions go into `outcome`.
  GroupConsumption(const Store& store, const Group& group, Delivery& delivery, Outcome& outcome, GroupOptions options);
  ~GroupConsumption();

  // Until all partitions that are ours are at the end as it stood when they became ours, the count, a stop signal or the idle
  // timeout. On return, and before an exception leaves it, what has arrived is committed.
  void run(const std::vector<std::string>& topics);

  // Where each partition that was ours stands: behind what has arrived.
  const std::map<TopicPartition, Offset>& positions() const { return positions_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Owned;
  class WakeUp;

  void consume();
  void look_after_group();
  void rebalance();
  void report(const FailedPartition& failed);
  void take(const AssignedPartition& assigned);
  void look_at_positions();
  bool is_past_end(const Owned& owned) const;
  PartitionCursor open(const AssignedPartition& assigned, const std::shared_ptr<const Topic>& topic);
  void revoke(const TopicPartition& partition);
  bool deliver_some();
  bool deliver_pieces(Owned& owned);
  void finish_large_batch(Owned& owned);
  bool finished() const;
  void tell_that_nothing_is_left() const;
  void look_for_obstacles();
  void settle(bool exact);
  void commit(Owned& owned);
  void commit_all();
  void commit_when_due();
  void release_retired();
  void wait_until_taken();
  void wait(std::chrono::milliseconds timeout);
  std::chrono::milliseconds waiting_time(std::chrono::milliseconds at_most) const;
  void before_delivery(PartitionCursor& cursor, Offset from, Offset next);
  Owned& owner_of(const PartitionCursor& cursor);
  bool anything_under_way() const;

  const Store& store_;
  const Group& group_;
  Delivery& delivery_;
  Outcome& outcome_;
  GroupOptions options_;
  std::vector<std::string> topics_;
  std::optional<GroupMember> member_;
  Rebalance change_;  // what became of the group meanwhile
  std::exception_ptr poll_failure_;
  std::list<Owned> owned_;                 // in the order of reading: by topic as named, then partition
  std::unique_ptr<PartitionWatch> watch_;  // none: what is owned has changed
  std::unique_ptr<WakeUp> wake_up_;        // none: we have not waited on it so far
  Clock::time_point last_commit_ = Clock::now();
  Clock::time_point next_look_;
  Clock::time_point next_position_look_;
  bool gave_up_ = false;                                      // what is awaited
  bool had_any_ = false;                                      // some partition was assigned to us
  std::set<TopicPartition> told_;                             // that are awaited
  std::map<TopicPartition, std::string> failures_;            // why a partition is not ours
  std::map<TopicPartition, std::optional<Offset>> past_end_;  // with -F: positions that were, and have not been read from since
  std::map<TopicPartition, Offset> positions_;
};

}  // namespace partlog::cmd

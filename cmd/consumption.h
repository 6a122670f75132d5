// Reads partitions in one of the orders of `consume` and delivers what passes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "arrivals.h"
#include "delivery.h"
#include "exit_status.h"
#include "filter.h"
#include "partition_cursor.h"
#include "partlog/group.h"

namespace partlog::cmd {

struct ConsumptionOptions {
  bool merge = false;                 // by timestamp, then partition, then offset
  std::optional<std::uint64_t> tail;  // only the newest of all partitions together; merged
  bool follow = false;
  std::optional<std::chrono::milliseconds> idle_timeout;
  bool track = false;  // positions() are wanted; not when merging
  ReaderOptions reader;
  std::size_t share = std::numeric_limits<std::size_t>::max();  // of memory, what a partition may hold until its next turn
};

class Consumption {
 public:
  // The references must outlive it. Failures of single partitions go into `outcome`. `printer` is needed to merge.
  Consumption(Filter& filter, Delivery& delivery, PrintDelivery* printer, Outcome& outcome, ConsumptionOptions options);

  // Until the end of all, the count, a stop signal or the idle timeout. What was delivered is flushed, and if it is tracked, has
  // arrived unless there was a signal. Without a store nothing can be tracked.
  void run(const Store* store, std::vector<PartitionCursor>& cursors);

  // For each cursor: everything below has arrived. Of a run that an exception ended, too.
  std::map<TopicPartition, Offset> positions();

 private:
  bool deliver(PartitionCursor& cursor);
  bool deliver_in_turn(PartitionCursor& cursor);
  void track(const Store& store, std::vector<PartitionCursor>& cursors);
  void wait_until_taken();

  void read_one_after_another(std::vector<PartitionCursor>& cursors);
  void read_tail(std::vector<PartitionCursor>& cursors);
  void read_merged(std::vector<PartitionCursor>& cursors, const std::vector<std::uint64_t>& surplus, std::uint64_t total_surplus);
  void follow(std::vector<PartitionCursor>& cursors);

  std::uint64_t find_tail(PartitionCursor& cursor);
  std::uint64_t count_back(PartitionCursor& cursor) const;
  std::uint64_t count_passing(PartitionReader& reader, Offset from, Offset to) const;

  Filter& filter_;
  Delivery& delivery_;
  PrintDelivery* printer_;
  Outcome& outcome_;
  ConsumptionOptions options_;
  std::map<TopicPartition, Arrivals> arrivals_;  // of what is tracked
};

// How long a reader that follows may wait for the next record.
class IdleTime {
 public:
  explicit IdleTime(std::optional<std::chrono::milliseconds> limit) : limit_(limit) {}
  void record_came() {
    if (limit_) since_ = std::chrono::steady_clock::now();
  }
  // nullopt: it is over. Never more than an hour.
  std::optional<std::chrono::milliseconds> left() const;

 private:
  std::optional<std::chrono::milliseconds> limit_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace partlog::cmd

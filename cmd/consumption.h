// Reads partitions in one of the orders of `consume` and prints what passes.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "exit_status.h"
#include "filter.h"
#include "output.h"
#include "partition_cursor.h"
#include "record_output.h"

namespace partlog::cmd {

struct ConsumptionOptions {
  bool merge = false;                 // by timestamp, then partition, then offset
  std::optional<std::uint64_t> tail;  // only the newest of all partitions together; merged
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();
  bool follow = false;
  std::optional<std::chrono::milliseconds> idle_timeout;
  bool unbuffered = false;
};

class Consumption {
 public:
  // The references must outlive it. Failures of single partitions go into `outcome`; failures of the output are thrown.
  Consumption(Filter& filter, RecordOutput& format, Output& output, Outcome& outcome, ConsumptionOptions options);

  // Until the end of all, the count, a stop signal or the idle timeout. What was printed is flushed.
  void run(const Store& store, std::vector<PartitionCursor>& cursors);

  std::uint64_t printed() const { return printed_; }

 private:
  struct Head;

  void read_one_after_another(std::vector<PartitionCursor>& cursors);
  void read_tail(std::vector<PartitionCursor>& cursors);
  void read_merged(std::vector<PartitionCursor>& cursors, std::vector<std::uint64_t> surplus, std::uint64_t total_surplus);
  void follow(const Store& store, std::vector<PartitionCursor>& cursors);

  bool advance(Head& head);
  bool may_wait(std::chrono::steady_clock::time_point last_record, std::chrono::milliseconds& timeout) const;
  std::uint64_t find_tail(PartitionCursor& cursor);
  std::uint64_t count_passing(PartitionReader& reader, Offset from, Offset to) const;
  std::span<const Record> read(PartitionCursor& cursor);
  void print(std::span<const Record> records, PartitionCursor& cursor);
  bool wanted() const;

  Filter& filter_;
  RecordOutput& format_;
  Output& output_;
  Outcome& outcome_;
  ConsumptionOptions options_;
  std::uint64_t printed_ = 0;
};

}  // namespace partlog::cmd

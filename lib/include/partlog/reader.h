// Reads the records of one partition in offset order, without taking a lock and without writing. Damage is never shown as a
// record.
//
// A PartitionReader belongs to one thread. Memory: one window of the file plus the largest batch.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/record.h"
#include "partlog/store.h"

namespace partlog {

struct ReaderOptions {
  std::size_t window_bytes = 256 << 10;          // read size; at least one batch is always held whole
  std::size_t decompression_limit = 256u << 20;  // largest uncompressed batch
};

class PARTLOG_EXPORT PartitionReader {
 public:
  // Error(invalid_argument) for a partition out of range.
  PartitionReader(const Store& store, const Topic& topic, int partition, ReaderOptions options = {});
  ~PartitionReader();
  PartitionReader(PartitionReader&&) noexcept;
  PartitionReader& operator=(PartitionReader&&) noexcept;

  // As they stand now.
  Offset start() const;  // the log start offset
  Offset end();          // the end offset: behind the last whole batch

  // The offset of the first record (from the log start on) whose timestamp is at or after `time`, below `limit`; nullopt: none.
  // The index finds the place; timestamps need not rise.
  std::optional<Offset> offset_at(Timestamp time, std::optional<Offset> limit = {});
  // The record with the largest timestamp, the first of them; nullopt in an empty log.
  struct OffsetAndTimestamp {
    Offset offset;
    Timestamp timestamp;
  };
  std::optional<OffsetAndTimestamp> max_timestamp();

  // The next offset that read() gives (or looks for).
  Offset position() const;
  // Nothing is opened before read(). Any offset may be given.
  void seek(Offset offset);

  // Some records from position() on, in offset order, offsets below `limit` only; valid until the next call. Empty: position() is
  // at the end (or at `limit`). Control records are passed over. Error(offset_out_of_range) if position() is below the log start
  // (see start()) or above the end; Error(damaged) with file, position and offset, after all records before it were given.
  std::span<const Record> read(std::optional<Offset> limit = {});

  // Of the records that the last read() gave. In Kafka's message formats v0 and v1 there is no epoch (no_epoch), in v0 no
  // timestamp (TimestampType::none, and no_timestamp in each record).
  std::int32_t leader_epoch() const;
  TimestampType timestamp_type() const;

  int partition() const;
  const std::string& directory() const;

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

// Waits until something may have changed in any of these partitions.
class PARTLOG_EXPORT PartitionWatch {
 public:
  PartitionWatch(const Store& store, const std::vector<std::string>& partition_directories,
                 std::chrono::milliseconds poll_interval = std::chrono::milliseconds(250));
  ~PartitionWatch();
  // Returns on a change since the last call returned, after `timeout`, when `wake_descriptor` is readable, when
  // `hangup_descriptor` lost its reader (-1: none), or on a signal.
  void wait(std::chrono::milliseconds timeout, int wake_descriptor = -1, int hangup_descriptor = -1);

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partlog

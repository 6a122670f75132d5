// Reads the records of one partition in offset order, without taking a lock and without writing. Damage is never shown as a
// record.
//
// A PartitionReader belongs to one thread. Memory: one window of the file plus the largest batch; see release().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
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

// What a reader that goes on past damage has left out.
struct LostRange {
  std::string path;
  Position position;
  Position end;  // where the next sound batch begins; `position` if nothing stands there
  Offset first;  // the offsets that may have been lost, to `next` (which is not among them); none, if that is the same: what
  Offset next;   // was passed over was there twice
  std::string reason;
};

// Which records of transactions are shown.
enum class Isolation {
  uncommitted,  // all
  committed,    // those of transactions that were committed; nothing from the first record on of one that is still open
};

struct ReaderOptions {
  std::size_t window_bytes = 256 << 10;         // read size; at least one batch is always held whole
  std::size_t decompression_limit = 64u << 20;  // largest uncompressed batch; unpacking may take twice that for a moment
  std::size_t largest_batch = 48u << 20;        // as stored; a topic's max.message.bytes counts where it is more
  Isolation isolation = Isolation::uncommitted;
  // NOLINTBEGIN(readability-redundant-member-init): they may be left out
  std::function<void(const LostRange&)> pass_over{};  // set: damage is told here, and reading goes on behind it
  Notice notice{};                                    // offsets that are not there, for reasons that cannot be told
  // NOLINTEND(readability-redundant-member-init)
};

class PARTLOG_EXPORT PartitionReader {
 public:
  // Error(invalid_argument) for a partition out of range.
  PartitionReader(const Store& store, const Topic& topic, int partition, ReaderOptions options = {});
  ~PartitionReader();
  PartitionReader(PartitionReader&&) noexcept;
  PartitionReader& operator=(PartitionReader&&) noexcept;

  // No store: the segments of a partition directory, ours or a broker's, or one file of batches (a segment, a snapshot of KRaft
  // metadata). Error(not_found); Error(refused) for what is neither.
  explicit PartitionReader(const std::string& path, ReaderOptions options = {});

  // As they stand now.
  Offset start() const;  // the log start offset
  Offset end();          // the end offset: behind the last whole batch
  // From now on the log ends where its files end now. Unlike end() this costs nothing where there is no index.
  void end_here();
  // Up to where the log was on stable storage once: end(), asked for later, is only below that if somebody shortened the log, or
  // a device lost what it had. nullopt: nothing is known.
  std::optional<Offset> stable_end() const;

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

  // Looks at what stands behind the last record that read() gave, without giving it: Error(damaged), or what is left out, as
  // read() has it without a limit. For whoever reads to the end as it was and wants to know that it is sound.
  void look_ahead();

  // Bytes held of what was read: the window, a batch, what it was unpacked to.
  std::size_t memory() const;
  // Gives them back, and with them the records that read() gave. The next read() reads anew.
  void release();
  // Whether the next read() gives records of the same batch as the last one.
  bool in_batch() const;

  // Of the records that the last read() gave. In Kafka's message formats v0 and v1 there is no epoch (no_epoch), in v0 no
  // timestamp (TimestampType::none, and no_timestamp in each record).
  std::int32_t leader_epoch() const;
  TimestampType timestamp_type() const;

  // Isolation::committed: where the last read() ended because the record there belongs to a transaction that is still open.
  std::optional<Offset> held_back() const;

  // Whether there were any transactions in what was read with Isolation::committed.
  bool has_transactions() const;

  int partition() const;
  const std::string& directory() const;

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

// Topic and partition of a partition directory, or of a file in one, by its name: TOPIC-N as a broker has it, or TOPIC/N.
// nullopt: the name is neither, or there is no such path.
struct PartitionName {
  std::string topic;
  int partition = 0;
};
PARTLOG_EXPORT std::optional<PartitionName> partition_name(const std::string& path);

// Waits until something may have changed in any of these partitions.
class PARTLOG_EXPORT PartitionWatch {
 public:
  // By asking every so often where hosts share a directory.
  explicit PartitionWatch(const std::vector<std::string>& partition_directories,
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

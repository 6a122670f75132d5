// Appends records to a topic: collects them into batches per partition, compresses and checksums outside the lock, appends under
// it.
//
// One Producer belongs to one thread at a time; any number of producers in threads and processes may append to the same
// partitions. Several threads can fill the batches of one producer: see RecordAccumulator.
// Delivery is at-least-once for the caller that repeats after an error, and exact for the one that goes on from progress().
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/record.h"
#include "partlog/store.h"

namespace partlog {

enum class SyncPolicy {
  none,   // the operating system writes when it likes: survives kill -9, not a power failure
  end,    // durable after sync(), which the caller calls at the end and when idle; and at each roll
  batch,  // durable before each acknowledgement
};

// How much of the input, from its start, is stored in all partitions (what a restart may skip).
struct Progress {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  // sum of the input sizes given with these records
};

// One appended batch, reported once the sync policy holds for it, in the order of appending.
struct Acknowledgement {
  int partition;
  Offset first;
  Offset last;
  Progress progress;
};

struct ProducerOptions {
  std::optional<int> partition;            // every record goes there; else by key, or sticky per batch without one
  std::optional<Compression> compression;  // nullopt: none, or what the topic's compression.type says, which always wins
  std::optional<int> compression_level;
  SyncPolicy sync = SyncPolicy::end;
  std::size_t batch_bytes = 0;             // 0: the default; never more than the topic's max.message.bytes
  std::chrono::microseconds linger{5000};  // flush_due() tells when the oldest waiting record has waited this long
  std::optional<std::chrono::milliseconds> lock_timeout;
  // Raised: waiting for a lock ends with Error(interrupted). To be raised by a signal handler, or followed by signals to the
  // producer's thread until the call returns.
  const std::atomic<bool>* stop = nullptr;
  Notice notice;
  std::function<void(const Acknowledgement&)> acknowledged;
};

class RecordAccumulator;

class PARTLOG_EXPORT Producer {
 public:
  // Error(invalid_argument) for a partition out of range, Error(refused) where nothing may be written.
  Producer(const Store& store, const Topic& topic, ProducerOptions options);
  ~Producer();  // gives preallocated space back; appends nothing
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  // Takes copies of the records, appending batches that have become full. `input_sizes`, empty or one per record, count for
  // Progress::bytes. Error(refused) for a record that no batch can hold (too large) or a record without key for a compacted
  // topic: records before it are taken, it and those after it are not, and taken() tells its index. Other errors leave the
  // records of full batches stored and the rest not; progress() tells how many. A record that fills a batch alone, or has more
  // than 4 MiB, is stored at once, without a copy; if that fails it is not taken. Records with timestamp no_timestamp get `now`.
  // `partitions`, empty or one per record, wins over key and ProducerOptions::partition where it is not negative; Error(refused)
  // as above for one that the topic does not have.
  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes = {},
              std::span<const std::int32_t> partitions = {});
  // Appends everything that waits, then all that the accumulator has taken, as if it had been given to append() above, but in the
  // batches that were made there; then clears it. After an Error its batches are stored in part, as progress() tells.
  void append(RecordAccumulator& batches);
  // Appends everything that waits.
  void flush();
  // flush(), then makes all that was appended durable, with everything that lies before it in the same partitions (not under
  // SyncPolicy::none). After an Error the offsets named in it are in doubt and the partition refuses appends.
  void sync();
  // When flush() is due for the linger time (monotonic microseconds as std::chrono::steady_clock counts); nullopt: nothing waits.
  std::optional<std::chrono::steady_clock::time_point> flush_due() const;

  const Topic& topic() const;
  std::size_t batch_bytes() const;     // what batches are made up to, uncompressed
  std::uint64_t taken() const;         // records taken by append so far
  std::uint64_t stored() const;        // records appended so far, in any partition
  std::uint64_t stored_bytes() const;  // their input sizes; 0 if none were given
  Progress progress() const;           // appended in order from the start (whether or not synced)
  // Whether everything appended is durable.
  bool durable() const;

 private:
  friend class RecordAccumulator;
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

// Records made into batches, checked, compressed and with checksums, apart from the producer that is to append them: several
// threads, each with its own accumulator, can do this side by side and append in turn. Belongs to one thread at a time.
class PARTLOG_EXPORT RecordAccumulator {
 public:
  // For this producer, which must outlive it.
  explicit RecordAccumulator(const Producer& producer);
  ~RecordAccumulator();
  RecordAccumulator(const RecordAccumulator&) = delete;
  RecordAccumulator& operator=(const RecordAccumulator&) = delete;

  // As Producer::append, but nothing is stored, and `now` is the time of the last clear(). Memory grows by what is taken.
  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes = {},
              std::span<const std::int32_t> partitions = {});
  // Finishes the batches: what takes long is done, and the next append() begins new ones.
  void finish();
  // Forgets what was taken.
  void clear();

 private:
  friend class Producer;
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partlog

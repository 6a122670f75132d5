// Records on their way into a topic: checked, given a partition, and put into batches, one batch in hand for each partition.
//
// Belongs to one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "format/record_batch.h"
#include "partlog/producer.h"
#include "partlog/store.h"

namespace partlog {

struct WaitingBatch {
  int partition = 0;
  format::BatchBuilder builder;
  Progress before;              // the input before its first record
  std::uint64_t bytes = 0;      // input size of its records
  format::BatchBytes finished;  // by the builder; empty: not yet

  const format::BatchBytes& finish(std::size_t max_size) {
    if (finished.front.empty()) finished = builder.finish_in_pieces(max_size);
    return finished;
  }
};

class Accumulator {
 public:
  // A batch that takes no more: has to be left empty, with emptied() called.
  using Full = std::function<void(WaitingBatch&)>;

  // Whether `full` stores a batch before it returns. Then large records are not copied.
  enum class Storing { at_once, later };

  // Error(invalid_argument) for a partition out of range.
  Accumulator(const Topic& topic, const ProducerOptions& options, Storing storing, Full full);

  // What records with no_timestamp get from now on.
  void set_time(Timestamp now);
  // As Producer::append.
  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
              std::span<const std::int32_t> partitions);

  // The batch was stored or moved away: records without key may go to the next partition.
  void emptied(WaitingBatch& batch);
  template <class Function>
  void for_each_waiting(Function function) {
    for (auto& b : batches_) {
      if (b && !b->builder.empty()) function(*b);
    }
  }
  int waiting() const { return waiting_; }  // how many batches are not empty
  std::size_t waiting_bytes() const;        // size of their records as encoded
  // When the first record came into a batch while no other waited.
  std::chrono::steady_clock::time_point oldest() const { return oldest_; }

  Progress taken() const { return taken_; }
  // As if input up to here had been taken.
  void set_taken(Progress taken) { taken_ = taken; }
  // The input before the first record that waits.
  Progress progress() const;

  std::size_t target_batch() const { return settings_.target_batch; }
  std::size_t max_batch() const { return settings_.max_batch; }
  int sticky() const { return sticky_; }  // where records without key go

  WaitingBatch new_batch(int partition = 0) const;

 private:
  struct Settings {
    std::size_t max_batch;     // as stored
    std::size_t target_batch;  // uncompressed
    Compression compression;
    std::optional<int> level;
    bool needs_key;
    std::int64_t future_ms;  // how far a timestamp may lie in the future
  };

  static Settings settings_of(const Topic& topic, const ProducerOptions& options);
  std::size_t run_length(std::span<const Record> records) const;
  std::size_t add(WaitingBatch& batch, std::span<const Record> records);
  std::size_t add_alone(WaitingBatch& batch, const Record& record);
  void store(WaitingBatch& batch);
  WaitingBatch& batch_of(int partition);
  int partition_for(const Record& record) const;
  int require_partition(std::int32_t n) const;
  bool is_acceptable(const Record& record) const;
  bool goes_alone(const Record& record) const;
  [[noreturn]] void throw_unacceptable(const Record& record) const;
  bool fits_compressed(const Record& record, std::size_t size) const;
  [[noreturn]] void throw_too_large(std::size_t size) const;

  const Topic topic_;
  const std::optional<int> partition_;
  const Settings settings_;
  const Storing storing_;
  const Full full_;
  std::vector<std::unique_ptr<WaitingBatch>> batches_;
  int sticky_;
  Timestamp now_;
  Timestamp latest_;  // that a record may have
  Progress taken_;
  int waiting_ = 0;
  std::chrono::steady_clock::time_point oldest_;
};

}  // namespace partlog

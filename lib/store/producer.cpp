#include "partlog/producer.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "format/file_names.h"
#include "log/partition_log.h"
#include "os/clock.h"
#include "store/accumulator.h"

namespace partlog {

namespace {

constexpr std::size_t large_batch = 2 << 20;          // of several partitions, worth giving back
constexpr std::size_t most_waiting_bytes = 16 << 20;  // in all partitions together
constexpr int many_partitions = 16;                   // more have batches that do not keep their memory
constexpr std::size_t most_waiting_acks = 1 << 16;

log::PartitionLogOptions log_options(const Topic& topic, int partition, const ProducerOptions& options) {
  log::PartitionLogOptions o;
  o.name = topic.name + ':' + std::to_string(partition);
  o.segment_bytes = topic.config.segment_bytes();
  o.segment_ms = topic.config.segment_ms();
  o.index_interval_bytes = topic.config.index_interval_bytes();
  o.log_append_time = topic.config.timestamp_type() == TimestampType::log_append_time;
  o.lock_wait.timeout = options.lock_timeout;
  o.lock_wait.stop = options.stop;
  o.notice = options.notice;
  return o;
}

Progress operator+(Progress one, Progress other) { return {one.records + other.records, one.bytes + other.bytes}; }

}  // namespace

class RecordAccumulator::Impl {
 public:
  Impl(const Topic& topic, const ProducerOptions& options)
      : has_many_partitions_(topic.partitions > many_partitions),
        accumulator_(topic, options, Accumulator::Storing::later, [this](WaitingBatch& batch) { seal(batch); }) {}

  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
              std::span<const std::int32_t> partitions) {
    accumulator_.append(records, input_sizes, partitions);
  }

  void finish() {
    accumulator_.for_each_waiting([this](WaitingBatch& batch) { seal(batch); });
    for (auto& batch : sealed()) batch.finish(accumulator_.max_batch());
  }

  void clear() {
    for (auto& batch : sealed()) has_many_partitions_ ? batch.builder.release() : batch.builder.clear();
    accumulator_.for_each_waiting([this](WaitingBatch& batch) {
      batch.builder.clear();
      accumulator_.emptied(batch);
    });
    used_ = 0;
    accumulator_.set_taken({});
    accumulator_.set_time(os::clock().now());
  }

  Progress taken() const { return accumulator_.taken(); }
  std::span<WaitingBatch> sealed() { return std::span(batches_).first(used_); }

 private:
  void seal(WaitingBatch& batch) {
    if (used_ == batches_.size()) batches_.push_back(accumulator_.new_batch());
    auto& spare = batches_[used_++];
    spare.partition = batch.partition;
    std::swap(batch, spare);
    accumulator_.emptied(spare);
  }

  const bool has_many_partitions_;
  Accumulator accumulator_;
  std::vector<WaitingBatch> batches_;  // those that take no more records, then spare ones, which are empty
  std::size_t used_ = 0;
};

class Producer::Impl {
 public:
  Impl(const Store& store, const Topic& topic, ProducerOptions options)
      : store_(store),
        topic_(topic),
        options_(std::move(options)),
        flush_messages_(topic.config.number("flush.messages")),
        accumulator_(topic_, options_, Accumulator::Storing::at_once, [this](WaitingBatch& batch) { this->store(batch); }),
        partitions_(static_cast<std::size_t>(topic.partitions)) {
    open(accumulator_.sticky());  // where nothing may be written says so before any input is taken
  }

  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
              std::span<const std::int32_t> partitions) {
    accumulator_.set_time(os::clock().now());
    accumulator_.append(records, input_sizes, partitions);
    if (accumulator_.waiting() > 1 && accumulator_.waiting_bytes() > most_waiting_bytes) flush();
  }

  void append(RecordAccumulator::Impl& others) {
    flush();
    others.finish();
    const auto batches = others.sealed();
    const auto start = accumulator_.taken();
    // What is stored of the input, from its start, once a batch is: what lies before the first record of all later ones.
    after_.resize(batches.size());
    auto least = others.taken();
    for (std::size_t i = batches.size(); i-- > 0;) {
      after_[i] = start + least;
      if (batches[i].before.records < least.records) least = batches[i].before;
    }
    for (std::size_t i = 0; i < batches.size(); ++i) {
      const auto count = batches[i].builder.count();
      const auto appended = put(batches[i]);
      accumulator_.set_taken(after_[i]);
      acknowledge(batches[i].partition, appended, count);
    }
    others.clear();
  }

  std::unique_ptr<RecordAccumulator::Impl> new_accumulator() const {
    return std::make_unique<RecordAccumulator::Impl>(topic_, options_);
  }

  void flush() {
    accumulator_.for_each_waiting([this](WaitingBatch& batch) { store(batch); });
  }

  void sync() {
    flush();
    if (options_.sync != SyncPolicy::none) sync_all();
    acknowledge_all();
  }

  std::optional<std::chrono::steady_clock::time_point> flush_due() const {
    if (accumulator_.waiting() == 0) return std::nullopt;
    return accumulator_.oldest() + options_.linger;
  }

  const Topic& topic() const { return topic_; }
  std::size_t batch_bytes() const { return accumulator_.target_batch(); }
  std::uint64_t taken() const { return accumulator_.taken().records; }
  std::uint64_t stored() const { return stored_.records; }
  std::uint64_t stored_bytes() const { return stored_.bytes; }
  Progress progress() const { return accumulator_.progress(); }

  bool durable() const {
    return options_.sync != SyncPolicy::none &&
           std::none_of(partitions_.begin(), partitions_.end(), [](const auto& p) { return p && p->log.needs_sync(); });
  }

 private:
  struct Partition {
    log::PartitionLog log;
    std::int64_t unflushed = 0;  // records appended since the last sync
  };

  Partition& open(int n) {
    if (auto& p = partitions_[static_cast<std::size_t>(n)]) [[likely]]
      return *p;
    return open_log(n);
  }

  Partition& open_log(int n) {
    log::PartitionDirectory directory(format::partition_path(topic_.directory, n), store_.on_network());
    directory.set_dense(!topic_.config.is_compacted());
    auto& p = partitions_[static_cast<std::size_t>(n)];
    p.reset(new Partition{log::PartitionLog(directory, log_options(topic_, n, options_))});
    require_same_topic();
    return *p;
  }

  // The partition just opened belongs to the topic that was looked up, not to one made anew under its name since.
  void require_same_topic() const {
    const auto now = store_.find_topic(topic_.name);
    if (now && now->id == topic_.id) return;
    throw Error(ErrorCode::not_found, "topic \"" + topic_.name + "\" was deleted while it was being written to");
  }

  void store(WaitingBatch& batch) {
    const auto count = batch.builder.count();
    const bool is_large = batch.builder.size() > large_batch;
    const auto appended = put(batch);
    batch.builder.clear_for(appended.end);
    if (topic_.partitions > many_partitions || (topic_.partitions > 1 && is_large)) batch.builder.release();
    accumulator_.emptied(batch);
    acknowledge(batch.partition, appended, count);
  }

  log::PartitionLog::Appended put(WaitingBatch& batch) {
    auto& partition = open(batch.partition);
    const auto count = batch.builder.count();
    const auto appended = partition.log.append(batch.finish(accumulator_.max_batch()));
    stored_ = stored_ + Progress{static_cast<std::uint64_t>(count), batch.bytes};
    partition.unflushed += count;
    return appended;
  }

  // Of the batch that was appended last, or a later time, as the sync policy says.
  void acknowledge(int number, const log::PartitionLog::Appended& appended, std::int32_t count) {
    if (options_.acknowledged) waiting_acks_.push_back({number, appended.first, appended.first + (count - 1), progress()});
    settle(open(number), appended.rolled);
  }

  // Syncs and acknowledges as the policy says.
  void settle(Partition& partition, bool rolled) {
    const bool flush_due = partition.unflushed >= flush_messages_ || waiting_acks_.size() >= most_waiting_acks;
    if (options_.sync == SyncPolicy::end && !store_.on_network()) {
      if (!rolled && !flush_due) return;
      sync_all();  // acknowledgements come in the order of appending, whatever the partition
    } else if (options_.sync == SyncPolicy::batch || flush_due) {
      sync(partition);
    }
    acknowledge_all();
  }

  void sync_all() {
    for (auto& p : partitions_) {
      if (p) sync(*p);
    }
  }

  void sync(Partition& partition) {
    try {
      partition.log.sync();
    } catch (const Error&) {
      in_doubt_ = true;
      throw;
    }
    partition.unflushed = 0;
  }

  // After a failed sync nothing is acknowledged any more: what waits may be what is in doubt.
  void acknowledge_all() {
    if (in_doubt_) return;
    for (; !waiting_acks_.empty(); waiting_acks_.pop_front()) options_.acknowledged(waiting_acks_.front());
  }

  const Store store_;
  const Topic topic_;
  const ProducerOptions options_;
  const std::int64_t flush_messages_;
  Accumulator accumulator_;
  std::vector<std::unique_ptr<Partition>> partitions_;
  Progress stored_;
  std::vector<Progress> after_;
  bool in_doubt_ = false;
  std::deque<Acknowledgement> waiting_acks_;
};

RecordAccumulator::RecordAccumulator(const Producer& producer) : impl_(producer.impl_->new_accumulator()) {}
RecordAccumulator::~RecordAccumulator() = default;
void RecordAccumulator::append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
                               std::span<const std::int32_t> partitions) {
  impl_->append(records, input_sizes, partitions);
}
void RecordAccumulator::finish() { impl_->finish(); }
void RecordAccumulator::clear() { impl_->clear(); }

Producer::Producer(const Store& store, const Topic& topic, ProducerOptions options)
    : impl_(std::make_unique<Impl>(store, topic, std::move(options))) {}
Producer::~Producer() = default;
void Producer::append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
                      std::span<const std::int32_t> partitions) {
  impl_->append(records, input_sizes, partitions);
}
void Producer::append(RecordAccumulator& batches) { impl_->append(*batches.impl_); }
void Producer::flush() { impl_->flush(); }
void Producer::sync() { impl_->sync(); }
std::optional<std::chrono::steady_clock::time_point> Producer::flush_due() const { return impl_->flush_due(); }
const Topic& Producer::topic() const { return impl_->topic(); }
std::size_t Producer::batch_bytes() const { return impl_->batch_bytes(); }
std::uint64_t Producer::taken() const { return impl_->taken(); }
std::uint64_t Producer::stored() const { return impl_->stored(); }
std::uint64_t Producer::stored_bytes() const { return impl_->stored_bytes(); }
Progress Producer::progress() const { return impl_->progress(); }
bool Producer::durable() const { return impl_->durable(); }

}  // namespace partlog

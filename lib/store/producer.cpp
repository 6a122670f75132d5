#include "partlog/producer.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/murmur2.h"
#include "format/file_names.h"
#include "format/record_batch.h"
#include "log/partition_log.h"
#include "os/clock.h"

namespace partlog {

namespace {

constexpr std::size_t default_batch_bytes = 512 << 10;
constexpr std::size_t most_waiting_bytes = 16 << 20;  // in all partitions together
constexpr int any_partition = -1;
constexpr std::size_t most_waiting_acks = 1 << 16;

struct Settings {
  std::size_t max_batch;     // as stored
  std::size_t target_batch;  // uncompressed
  Compression compression;
  std::optional<int> level;
  bool needs_key;
  std::int64_t future_ms;  // how far a timestamp may lie in the future
  std::int64_t flush_messages;
};

Settings settings_of(const Topic& topic, const ProducerOptions& options) {
  Settings s;
  const auto forced = topic.config.compression();
  s.compression = forced ? *forced : options.compression.value_or(Compression::none);
  s.max_batch = std::min(static_cast<std::size_t>(topic.config.max_message_bytes()), format::BatchBuilder::most_bytes);
  s.target_batch = std::min(s.max_batch, options.batch_bytes != 0 ? options.batch_bytes : default_batch_bytes);
  if (s.compression != Compression::none) s.target_batch = std::min(s.target_batch, format::BatchBuilder::most_unpacked_bytes);
  s.level = !forced || forced == options.compression ? options.compression_level : std::nullopt;
  s.needs_key = topic.config.is_compacted();
  s.future_ms = topic.config.number("message.timestamp.after.max.ms");
  s.flush_messages = topic.config.number("flush.messages");
  return s;
}

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

std::string no_such_partition(const Topic& topic, int partition) {
  return "topic \"" + topic.name + "\" has partitions 0 to " + std::to_string(topic.partitions - 1) + ", no partition " +
         std::to_string(partition);
}

}  // namespace

class Producer::Impl {
 public:
  Impl(const Store& store, const Topic& topic, ProducerOptions options)
      : store_(store), topic_(topic), options_(std::move(options)), settings_(settings_of(topic, options_)) {
    if (options_.partition && (*options_.partition < 0 || *options_.partition >= topic.partitions)) {
      throw Error(ErrorCode::invalid_argument, no_such_partition(topic, *options_.partition));
    }
    partitions_.resize(static_cast<std::size_t>(topic.partitions));
    sticky_ = options_.partition ? *options_.partition
                                 : static_cast<int>(std::random_device{}() % static_cast<unsigned>(topic.partitions));
    open(sticky_);  // where nothing may be written says so before any input is taken
  }

  void append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
              std::span<const std::int32_t> partitions) {
    now_ = os::clock().now();
    const auto latest = settings_.future_ms < std::numeric_limits<std::int64_t>::max() - now_.value
                            ? now_ + settings_.future_ms
                            : Timestamp{std::numeric_limits<std::int64_t>::max()};
    for (std::size_t i = 0; i < records.size();) {
      const auto rest = records.subspan(i);
      const int named = partitions.empty() || partitions[i] < 0 ? any_partition : require_partition(partitions[i]);
      const auto run = rest.first(partitions.empty() ? run_length(rest, latest) : run_length(rest.first(1), latest));
      auto& partition = open(named != any_partition ? named : partition_for(rest[0]));
      const auto added = add(partition, run);
      const auto sizes = input_sizes.empty() ? input_sizes : input_sizes.subspan(i, added);
      count(partition, added, std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
      i += added;
    }
    if (waiting_partitions_ > 1) bound_waiting_bytes();
  }

  void flush() {
    for (auto& p : partitions_) {
      if (p && !p->builder.empty()) store(*p);
    }
  }

  void sync() {
    flush();
    if (options_.sync != SyncPolicy::none) sync_all();
    acknowledge_all();
  }

  std::optional<std::chrono::steady_clock::time_point> flush_due() const {
    if (waiting_partitions_ == 0) return std::nullopt;
    return oldest_ + options_.linger;
  }

  std::uint64_t taken() const { return taken_.records; }
  std::uint64_t stored() const { return stored_.records; }
  std::uint64_t stored_bytes() const { return stored_.bytes; }

  Progress progress() const {
    Progress done = taken_;
    for (const auto& p : partitions_) {
      if (p && !p->builder.empty() && p->before.records < done.records) done = p->before;
    }
    return done;
  }

  bool durable() const {
    return options_.sync != SyncPolicy::none &&
           std::none_of(partitions_.begin(), partitions_.end(), [](const auto& p) { return p && p->log.needs_sync(); });
  }

 private:
  struct Partition {
    Partition(int n, const log::PartitionDirectory& directory, log::PartitionLogOptions options, const Settings& s)
        : number(n), log(directory, std::move(options)), builder({s.compression, s.level}) {}
    int number;
    log::PartitionLog log;
    format::BatchBuilder builder;
    Progress before;             // the input before the first waiting record
    std::uint64_t bytes = 0;     // input size of the waiting records
    std::int64_t unflushed = 0;  // records appended since the last sync
  };

  // How many records from the first on are acceptable and go where that one goes.
  std::size_t run_length(std::span<const Record> records, Timestamp latest) const {
    if (!is_acceptable(records[0], latest)) throw_unacceptable(records[0]);
    const bool anywhere = options_.partition || topic_.partitions == 1;
    if (!anywhere && !records[0].key.is_null()) return 1;
    std::size_t n = 1;
    while (n < records.size() && (anywhere || records[n].key.is_null()) && is_acceptable(records[n], latest)) ++n;
    return n;
  }

  // Adds as many as the waiting batch takes. None: it was full and has been stored, and the records go where they would go now.
  std::size_t add(Partition& partition, std::span<const Record> records) {
    partition.builder.set_default_timestamp(now_);
    const bool first = partition.builder.empty();
    if (first) {  // before anything is added: memory may end in the midst of it
      partition.before = taken_;
      partition.bytes = 0;
    }
    auto added = partition.builder.add_run(records, settings_.target_batch);
    if (added == 0 && !first) {
      store(partition);
      return 0;
    }
    if (added == 0) added = add_alone(partition, records[0]);
    if (first) begin_waiting();
    return added;
  }

  void count(Partition& partition, std::size_t records, std::uint64_t bytes) {
    taken_.records += records;
    taken_.bytes += bytes;
    partition.bytes += bytes;
  }

  Partition& open(int n) {
    if (auto& p = partitions_[static_cast<std::size_t>(n)]) [[likely]]
      return *p;
    return open_log(n);
  }

  Partition& open_log(int n) {
    const log::PartitionDirectory directory(format::partition_path(topic_.directory, n), store_.on_network());
    auto& p = partitions_[static_cast<std::size_t>(n)];
    p = std::make_unique<Partition>(n, directory, log_options(topic_, n, options_), settings_);
    require_same_topic();
    return *p;
  }

  // The partition just opened belongs to the topic that was looked up, not to one made anew under its name since.
  void require_same_topic() const {
    const auto now = store_.find_topic(topic_.name);
    if (now && now->id == topic_.id) return;
    throw Error(ErrorCode::not_found, "topic \"" + topic_.name + "\" was deleted while it was being written to");
  }

  int partition_for(const Record& record) const {
    if (options_.partition || record.key.is_null()) return sticky_;
    return topic_.partitions == 1 ? 0 : partition_of_key(record.key.view(), topic_.partitions);
  }

  int require_partition(std::int32_t n) const {
    if (n < topic_.partitions) return n;
    throw Error(ErrorCode::refused, "topic \"" + topic_.name + "\" has no partition " + std::to_string(n));
  }

  bool is_acceptable(const Record& record, Timestamp latest) const {
    return record.timestamp >= no_timestamp && record.timestamp <= latest && !(settings_.needs_key && record.key.is_null());
  }

  [[noreturn]] void throw_unacceptable(const Record& record) const {
    if (settings_.needs_key && record.key.is_null()) {
      throw Error(ErrorCode::refused, "topic \"" + topic_.name + "\" is compacted (cleanup.policy), so every record needs a key");
    }
    throw Error(ErrorCode::refused,
                "timestamp " + std::to_string(record.timestamp.value) +
                    (record.timestamp < Timestamp{0} ? " lies before 1970"
                                                     : " lies further in the future than message.timestamp.after.max.ms allows"));
  }

  // A record larger than the target batch gets one of its own, if the topic allows it. Returns 1.
  std::size_t add_alone(Partition& partition, const Record& record) {
    const auto size = partition.builder.size() + partition.builder.size_of(record);
    if (size > settings_.max_batch && !fits_compressed(record, size)) throw_too_large(size);
    partition.builder.add(record);
    return 1;
  }

  // Whether a record that makes a batch of this size fits once it is compressed, and readers unpack it then.
  bool fits_compressed(const Record& record, std::size_t size) const {
    if (settings_.compression == Compression::none || size > format::BatchBuilder::most_unpacked_bytes) return false;
    format::BatchBuilder alone({settings_.compression, settings_.level});
    alone.set_default_timestamp(now_);
    alone.add(record);
    return alone.finish().size() <= settings_.max_batch;
  }

  [[noreturn]] void throw_too_large(std::size_t size) const {
    const auto allowed = static_cast<std::size_t>(topic_.config.max_message_bytes());
    auto message = "the record makes a batch of " + std::to_string(size) + " bytes, more than ";
    if (size > allowed) {
      message += "max.message.bytes=" + std::to_string(allowed) + " of topic \"" + topic_.name + "\" allows";
      if (settings_.compression != Compression::none && size > format::BatchBuilder::most_unpacked_bytes) {
        message += "; a compressed batch is at most " + std::to_string(format::BatchBuilder::most_unpacked_bytes) +
                   " bytes before compression, since readers unpack no more";
      }
    } else {
      message += "the " + std::to_string(format::BatchBuilder::most_bytes) + " that any batch may have";
    }
    throw Error(ErrorCode::refused, message);
  }

  void begin_waiting() {
    if (waiting_partitions_++ == 0)
      oldest_ = std::chrono::steady_clock::time_point(std::chrono::microseconds(os::clock().monotonic_us()));
  }

  void bound_waiting_bytes() {
    std::size_t waiting = 0;
    for (const auto& p : partitions_) waiting += p && !p->builder.empty() ? p->builder.size() : 0;
    if (waiting > most_waiting_bytes) flush();
  }

  void store(Partition& partition) {
    const auto count = static_cast<std::uint64_t>(partition.builder.count());
    const auto appended = partition.log.append(partition.builder.finish(settings_.max_batch));
    partition.builder.clear_for(appended.end);
    if (topic_.partitions > 64) partition.builder.release();
    --waiting_partitions_;
    stored_.records += count;
    stored_.bytes += partition.bytes;
    if (partition.number == sticky_ && !options_.partition) sticky_ = (sticky_ + 1) % topic_.partitions;
    if (options_.acknowledged) {
      waiting_acks_.push_back(
          {partition.number, appended.first, appended.first + static_cast<std::int64_t>(count) - 1, progress()});
    }
    partition.unflushed += static_cast<std::int64_t>(count);
    settle(partition, appended.rolled);
  }

  // Syncs and acknowledges as the policy says.
  void settle(Partition& partition, bool rolled) {
    const bool flush_due = partition.unflushed >= settings_.flush_messages || waiting_acks_.size() >= most_waiting_acks;
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
  ProducerOptions options_;
  const Settings settings_;
  std::vector<std::unique_ptr<Partition>> partitions_;
  int sticky_;
  Timestamp now_;  // when the records in hand were given
  Progress taken_;
  Progress stored_;
  int waiting_partitions_ = 0;
  std::chrono::steady_clock::time_point oldest_;
  bool in_doubt_ = false;
  std::deque<Acknowledgement> waiting_acks_;
};

Producer::Producer(const Store& store, const Topic& topic, ProducerOptions options)
    : impl_(std::make_unique<Impl>(store, topic, std::move(options))) {}
Producer::~Producer() = default;
void Producer::append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
                      std::span<const std::int32_t> partitions) {
  impl_->append(records, input_sizes, partitions);
}
void Producer::flush() { impl_->flush(); }
void Producer::sync() { impl_->sync(); }
std::optional<std::chrono::steady_clock::time_point> Producer::flush_due() const { return impl_->flush_due(); }
std::uint64_t Producer::taken() const { return impl_->taken(); }
std::uint64_t Producer::stored() const { return impl_->stored(); }
std::uint64_t Producer::stored_bytes() const { return impl_->stored_bytes(); }
Progress Producer::progress() const { return impl_->progress(); }
bool Producer::durable() const { return impl_->durable(); }

}  // namespace partlog

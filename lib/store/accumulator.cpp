#include "store/accumulator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "base/murmur2.h"
#include "os/clock.h"

namespace partlog {

namespace {

constexpr std::size_t default_batch_bytes = 512 << 10;
constexpr std::size_t large_record = 4 << 20;  // gains nothing by having others in its batch
constexpr int any_partition = -1;

std::string no_such_partition(const Topic& topic, int partition) {
  return "topic \"" + topic.name + "\" has partitions 0 to " + std::to_string(topic.partitions - 1) + ", no partition " +
         std::to_string(partition);
}

int first_partition(const Topic& topic, std::optional<int> partition) {
  if (!partition) return static_cast<int>(std::random_device{}() % static_cast<unsigned>(topic.partitions));
  if (*partition < 0 || *partition >= topic.partitions) {
    throw Error(ErrorCode::invalid_argument, no_such_partition(topic, *partition));
  }
  return *partition;
}

}  // namespace

Accumulator::Settings Accumulator::settings_of(const Topic& topic, const ProducerOptions& options) {
  Settings s;
  const auto forced = topic.config.compression();
  s.compression = forced ? *forced : options.compression.value_or(Compression::none);
  s.max_batch = std::min(static_cast<std::size_t>(topic.config.max_message_bytes()), format::BatchBuilder::most_bytes);
  s.target_batch = std::min(s.max_batch, options.batch_bytes != 0 ? options.batch_bytes : default_batch_bytes);
  if (s.compression != Compression::none) s.target_batch = std::min(s.target_batch, format::BatchBuilder::most_unpacked_bytes);
  s.level = !forced || forced == options.compression ? options.compression_level : std::nullopt;
  s.needs_key = topic.config.is_compacted();
  s.future_ms = topic.config.number("message.timestamp.after.max.ms");
  return s;
}

Accumulator::Accumulator(const Topic& topic, const ProducerOptions& options, Storing storing, Full full)
    : topic_(topic),
      partition_(options.partition),
      settings_(settings_of(topic, options)),
      storing_(storing),
      full_(std::move(full)),
      batches_(static_cast<std::size_t>(topic.partitions)),
      sticky_(first_partition(topic, options.partition)) {
  set_time(os::clock().now());
}

void Accumulator::set_time(Timestamp now) {
  now_ = now;
  const auto furthest = std::numeric_limits<std::int64_t>::max();
  latest_ = settings_.future_ms < furthest - now.value ? now + settings_.future_ms : Timestamp{furthest};
}

void Accumulator::append(std::span<const Record> records, std::span<const std::uint32_t> input_sizes,
                         std::span<const std::int32_t> partitions) {
  for (std::size_t i = 0; i < records.size();) {
    const auto rest = records.subspan(i);
    const int named = partitions.empty() || partitions[i] < 0 ? any_partition : require_partition(partitions[i]);
    const auto run = rest.first(run_length(partitions.empty() ? rest : rest.first(1)));
    auto& batch = batch_of(named != any_partition ? named : partition_for(rest[0]));
    const auto added = add(batch, run);
    const auto sizes = input_sizes.empty() ? input_sizes : input_sizes.subspan(i, added);
    const auto bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    taken_.records += added;
    taken_.bytes += bytes;
    batch.bytes += bytes;
    i += added;
    if (storing_ == Storing::at_once && (batch.builder.size() > settings_.target_batch || (added > 0 && goes_alone(run[0]))))
      store(batch);
  }
}

// A record that has a batch of its own: it is not copied, so it was not taken if it cannot be stored.
void Accumulator::store(WaitingBatch& batch) {
  try {
    full_(batch);
  } catch (...) {
    if (!batch.builder.empty()) {
      taken_ = batch.before;
      batch.builder.clear();
      emptied(batch);
    }
    throw;
  }
}

void Accumulator::emptied(WaitingBatch& batch) {
  --waiting_;
  if (batch.partition == sticky_ && !partition_) sticky_ = (sticky_ + 1) % topic_.partitions;
}

std::size_t Accumulator::waiting_bytes() const {
  std::size_t waiting = 0;
  for (const auto& b : batches_) waiting += b && !b->builder.empty() ? b->builder.size() : 0;
  return waiting;
}

Progress Accumulator::progress() const {
  Progress done = taken_;
  for (const auto& b : batches_) {
    if (b && !b->builder.empty() && b->before.records < done.records) done = b->before;
  }
  return done;
}

WaitingBatch Accumulator::new_batch(int partition) const {
  return {partition, format::BatchBuilder({settings_.compression, settings_.level}), {}, 0, {}};
}

// How many records from the first on are acceptable and go where that one goes.
std::size_t Accumulator::run_length(std::span<const Record> records) const {
  if (!is_acceptable(records[0])) throw_unacceptable(records[0]);
  const bool anywhere = partition_ || topic_.partitions == 1;
  if ((!anywhere && !records[0].key.is_null()) || goes_alone(records[0])) return 1;
  std::size_t n = 1;
  while (n < records.size() && (anywhere || records[n].key.is_null()) && is_acceptable(records[n]) && !goes_alone(records[n]))
    ++n;
  return n;
}

// Adds as many as the batch takes. None: it was full and is empty now, and the records go where they would go now.
std::size_t Accumulator::add(WaitingBatch& batch, std::span<const Record> records) {
  batch.builder.set_default_timestamp(now_);
  const bool first = batch.builder.empty();
  if (first) {  // before anything is added: memory may end in the midst of it
    batch.before = taken_;
    batch.bytes = 0;
    batch.finished = {};
  }
  auto added = goes_alone(records[0]) ? 0 : batch.builder.add_run(records, settings_.target_batch);
  if (added == 0 && !first) {
    full_(batch);
    return 0;
  }
  if (added == 0) added = add_alone(batch, records[0]);
  if (first && waiting_++ == 0) {
    oldest_ = std::chrono::steady_clock::time_point(std::chrono::microseconds(os::clock().monotonic_us()));
  }
  return added;
}

// A record larger than the target batch gets one of its own, if the topic allows it. Returns 1.
std::size_t Accumulator::add_alone(WaitingBatch& batch, const Record& record) {
  const auto size = batch.builder.size() + batch.builder.size_of(record);
  if (size > settings_.max_batch && !fits_compressed(record, size)) throw_too_large(size);
  if (storing_ == Storing::at_once)
    batch.builder.add_only(record);
  else
    batch.builder.add(record);
  return 1;
}

WaitingBatch& Accumulator::batch_of(int partition) {
  auto& batch = batches_[static_cast<std::size_t>(partition)];
  if (!batch) [[unlikely]]
    batch = std::make_unique<WaitingBatch>(new_batch(partition));
  return *batch;
}

int Accumulator::partition_for(const Record& record) const {
  if (partition_ || record.key.is_null()) return sticky_;
  return topic_.partitions == 1 ? 0 : partition_of_key(record.key.view(), topic_.partitions);
}

int Accumulator::require_partition(std::int32_t n) const {
  if (n < topic_.partitions) return n;
  throw Error(ErrorCode::refused, "topic \"" + topic_.name + "\" has no partition " + std::to_string(n));
}

bool Accumulator::is_acceptable(const Record& record) const {
  return record.timestamp >= no_timestamp && record.timestamp <= latest_ && !(settings_.needs_key && record.key.is_null());
}

bool Accumulator::goes_alone(const Record& record) const {
  return settings_.target_batch > large_record && storing_ == Storing::at_once &&
         record.key.size() + record.value.size() + record.headers.size > large_record;
}

void Accumulator::throw_unacceptable(const Record& record) const {
  if (settings_.needs_key && record.key.is_null()) {
    throw Error(ErrorCode::refused, "topic \"" + topic_.name + "\" is compacted (cleanup.policy), so every record needs a key");
  }
  throw Error(ErrorCode::refused,
              "timestamp " + std::to_string(record.timestamp.value) +
                  (record.timestamp < Timestamp{0} ? " lies before 1970"
                                                   : " lies further in the future than message.timestamp.after.max.ms allows"));
}

// Whether a record that makes a batch of this size fits once it is compressed, and readers unpack it then.
bool Accumulator::fits_compressed(const Record& record, std::size_t size) const {
  if (settings_.compression == Compression::none || size > format::BatchBuilder::most_unpacked_bytes) return false;
  format::BatchBuilder alone({settings_.compression, settings_.level});
  alone.set_default_timestamp(now_);
  alone.add_only(record);
  return alone.finish_in_pieces().size() <= settings_.max_batch;
}

void Accumulator::throw_too_large(std::size_t size) const {
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

}  // namespace partlog

#include "partlog/reader.h"

#include <algorithm>
#include <array>
#include <utility>

#include "format/file_names.h"
#include "log/batch_stream.h"
#include "log/transactions.h"
#include "os/directory.h"
#include "os/filesystem.h"
#include "os/watch.h"

namespace partlog {

class PartitionReader::Impl {
 public:
  Impl(log::PartitionDirectory directory, int partition, ReaderOptions options)
      : partition_(partition), options_(std::move(options)), stream_(std::move(directory), options_.window_bytes) {
    if (options_.pass_over) stream_.pass_over_damage(options_.pass_over);
    stream_.tell_of_holes(options_.notice);
    stream_.set_largest_batch(options_.largest_batch);
  }
  Impl(const Store& store, const Topic& topic, int partition, ReaderOptions options)
      : Impl(directory_of(store, topic, partition), partition, std::move(options)) {
    options_.largest_batch = std::max(options_.largest_batch, static_cast<std::size_t>(topic.config.max_message_bytes()));
    stream_.set_largest_batch(options_.largest_batch);
    if (partition < 0 || partition >= topic.partitions) {
      throw Error(ErrorCode::invalid_argument, "topic \"" + topic.name + "\" has partitions 0 to " +
                                                   std::to_string(topic.partitions - 1) + ", no partition " +
                                                   std::to_string(partition));
    }
  }

  static log::PartitionDirectory directory_of(const Store& store, const Topic& topic, int partition) {
    log::PartitionDirectory directory(format::partition_path(topic.directory, partition), store.on_network());
    directory.set_dense(!topic.config.is_compacted());
    return directory;
  }

  Offset start() const { return stream_.directory().log_start(); }
  Offset end() { return stream_.end(); }
  void end_here() { stream_.end_here(); }
  std::optional<Offset> stable_end() const { return stream_.directory().stable_end(); }
  Offset position() const { return position_; }
  int partition() const { return partition_; }
  const std::string& directory() const { return stream_.directory().path(); }
  std::int32_t leader_epoch() const { return epoch_; }
  TimestampType timestamp_type() const { return type_; }
  std::optional<Offset> held_back() const { return held_back_; }
  bool has_transactions() const { return transactions_.has_value(); }

  void seek(Offset offset) {
    position_ = offset;
    stream_.seek(offset);
    held_back_.reset();
    undecided_.reset();
    in_batch_ = false;
    decoded_ = {};
  }

  std::size_t memory() const { return stream_.memory() + decoder_.memory() + (transactions_ ? transactions_->memory() : 0); }

  void release() {
    stream_.seek(position_);
    if (transactions_) transactions_->release();
    in_batch_ = false;
    decoded_ = {};
    decoder_ = {};
  }

  bool in_batch() const { return in_batch_ && position_ < stream_.header().next_offset(); }

  std::span<const Record> read(std::optional<Offset> limit) {
    for (;;) {
      if (limit && position_ >= *limit) {
        tell_undecided();
        return {};
      }
      if (decoded_.empty() && !decode_more()) return {};
      skip_below_position();
      if (decoded_.empty()) continue;
      auto given = decoded_;
      if (limit && given.back().offset >= *limit) {
        given = given.first(static_cast<std::size_t>(
            std::partition_point(given.begin(), given.end(), [&](const Record& r) { return r.offset < *limit; }) -
            given.begin()));
        if (given.empty()) {  // a gap reaches over the limit
          position_ = *limit;
          return {};
        }
      }
      decoded_ = decoded_.subspan(given.size());
      position_ = given.back().offset + 1;
      return given;
    }
  }

  void look_ahead() {
    if (held_back_) {
      if (transactions_->look_ahead()) held_back_.reset();
      return;
    }
    if (in_batch()) return;
    stream_.look_ahead();
    seek(std::max(position_, stream_.position()));
  }

  std::optional<Offset> offset_at(Timestamp time, std::optional<Offset> limit) {
    const KeepPosition keep(*this);
    const auto found = first_record(time, limit);
    return found ? std::optional(found->offset) : std::nullopt;
  }

  std::optional<OffsetAndTimestamp> max_timestamp() {
    const KeepPosition keep(*this);
    if (!stream_.seek_max_time()) return std::nullopt;
    const auto batch = stream_.position();
    if (!stream_.next()) return std::nullopt;
    const auto expected = stream_.header().max_timestamp;
    auto largest = largest_record(batch, stream_.header().next_offset());
    // The header is right, but for a record below the log start, and what compaction took away.
    if (!largest || largest->timestamp != expected) largest = largest_record(start(), {});
    return largest;
  }

 private:
  // Looking something up does not move the reader.
  class KeepPosition {
   public:
    explicit KeepPosition(Impl& impl) : impl_(impl), position_(impl.position_) {}
    KeepPosition(const KeepPosition&) = delete;
    KeepPosition& operator=(const KeepPosition&) = delete;
    ~KeepPosition() { impl_.seek(position_); }

   private:
    Impl& impl_;
    Offset position_;
  };

  // Decodes the next records of the batch in hand, or of the next batch; false at the end of the log.
  bool decode_more() {
    for (;;) {
      if (in_batch_) {
        if (const auto n = decoder_.decode(records_); n > 0) {
          decoded_ = {records_.data(), n};
          return true;
        }
        if (!decoder_.fault().empty()) leave_rest_out();
        leave_batch();
      }
      held_back_.reset();
      if (!stream_.next()) {
        tell_undecided();
        position_ = std::max(position_, stream_.position());
        return false;
      }
      const auto& header = stream_.header();
      if (header.is_control()) {
        leave_batch();
        continue;
      }
      if (header.is_transactional() && options_.isolation == Isolation::committed) {
        const auto fate = fate_of(header);
        if (fate == log::Transactions::Fate::open) return false;
        if (fate == log::Transactions::Fate::lost) leave_undecided_out();
        if (fate != log::Transactions::Fate::committed) {
          leave_batch();
          continue;
        }
      }
      tell_undecided();
      in_batch_ = true;
      epoch_ = header.leader_epoch;
      type_ = header.timestamp_type();
      decoder_.start(header, stream_.batch(), options_.decompression_limit);
    }
  }

  void leave_batch() {
    in_batch_ = false;
    position_ = std::max(position_, stream_.header().next_offset());
    stream_.advance(position_);
  }

  // The batch is whole, but what stands in it cannot be decoded.
  void leave_rest_out() {
    if (!options_.pass_over) throw Error(ErrorCode::damaged, stream_.place() + ": " + decoder_.fault());
    const auto place = stream_.where();
    options_.pass_over(
        {place.path, place.position, place.end, decoder_.fault_offset(), stream_.header().next_offset(), decoder_.fault()});
  }

  // The next batches, but for markers, may belong to the same range.
  void leave_undecided_out() {
    const auto place = stream_.where();
    const auto& header = stream_.header();
    const auto first = std::max(header.base_offset, position_);
    if (undecided_ && undecided_->path == place.path && undecided_->end == place.position) {
      undecided_->end = place.end;
      undecided_->next = header.next_offset();
      return;
    }
    tell_undecided();
    undecided_ = {place.path, place.position,       place.end,
                  first,      header.next_offset(), "whether the transaction was committed stands in what is damaged"};
  }

  void tell_undecided() {
    if (!undecided_) [[likely]]
      return;
    options_.pass_over(*std::exchange(undecided_, std::nullopt));
  }

  // If it is open, the batch will be looked for again.
  log::Transactions::Fate fate_of(const format::BatchHeader& header) {
    if (!transactions_) {
      transactions_.emplace(stream_.directory().whole(), options_);
    }
    const auto fate = transactions_->fate_of(header);
    if (fate == log::Transactions::Fate::open) {
      const auto from = std::max(position_, header.base_offset);
      tell_undecided();
      seek(from);
      held_back_ = from;
    }
    return fate;
  }

  void skip_below_position() {
    while (!decoded_.empty() && decoded_.front().offset < position_) decoded_ = decoded_.subspan(1);
  }

  std::optional<OffsetAndTimestamp> first_record(Timestamp time, std::optional<Offset> limit) {
    if (!stream_.seek_time(time, limit)) return std::nullopt;
    seek(stream_.position());
    for (auto records = read(limit); !records.empty(); records = read(limit)) {
      for (const auto& record : records) {
        if (record.timestamp >= time) return OffsetAndTimestamp{record.offset, record.timestamp};
      }
    }
    return std::nullopt;
  }

  std::optional<OffsetAndTimestamp> largest_record(Offset from, std::optional<Offset> limit) {
    std::optional<OffsetAndTimestamp> largest;
    seek(from);
    for (auto records = read(limit); !records.empty(); records = read(limit)) {
      for (const auto& record : records) {
        if (!largest || record.timestamp > largest->timestamp) largest = OffsetAndTimestamp{record.offset, record.timestamp};
      }
    }
    return largest;
  }

  int partition_;
  ReaderOptions options_;
  log::BatchStream stream_;
  format::RecordDecoder decoder_;
  std::array<Record, 128> records_;
  std::span<const Record> decoded_;  // not given yet
  bool in_batch_ = false;
  std::optional<log::Transactions> transactions_;
  std::optional<Offset> held_back_;
  std::optional<LostRange> undecided_;  // left out, not told yet
  Offset position_;
  std::int32_t epoch_ = no_epoch;
  TimestampType type_ = TimestampType::create_time;
};

PartitionReader::PartitionReader(const Store& store, const Topic& topic, int partition, ReaderOptions options)
    : impl_(std::make_unique<Impl>(store, topic, partition, std::move(options))) {}
PartitionReader::PartitionReader(const std::string& path, ReaderOptions options)
    : impl_(std::make_unique<Impl>(log::PartitionDirectory::of_files(path), -1, std::move(options))) {}
PartitionReader::~PartitionReader() = default;
PartitionReader::PartitionReader(PartitionReader&&) noexcept = default;
PartitionReader& PartitionReader::operator=(PartitionReader&&) noexcept = default;
Offset PartitionReader::start() const { return impl_->start(); }
std::optional<Offset> PartitionReader::stable_end() const { return impl_->stable_end(); }
Offset PartitionReader::end() { return impl_->end(); }
void PartitionReader::end_here() { impl_->end_here(); }
std::optional<Offset> PartitionReader::offset_at(Timestamp time, std::optional<Offset> limit) {
  return impl_->offset_at(time, limit);
}
std::optional<PartitionReader::OffsetAndTimestamp> PartitionReader::max_timestamp() { return impl_->max_timestamp(); }
Offset PartitionReader::position() const { return impl_->position(); }
void PartitionReader::seek(Offset offset) { impl_->seek(offset); }
std::span<const Record> PartitionReader::read(std::optional<Offset> limit) { return impl_->read(limit); }
void PartitionReader::look_ahead() { impl_->look_ahead(); }
std::size_t PartitionReader::memory() const { return impl_->memory(); }
void PartitionReader::release() { impl_->release(); }
bool PartitionReader::in_batch() const { return impl_->in_batch(); }
std::int32_t PartitionReader::leader_epoch() const { return impl_->leader_epoch(); }
TimestampType PartitionReader::timestamp_type() const { return impl_->timestamp_type(); }
std::optional<Offset> PartitionReader::held_back() const { return impl_->held_back(); }
bool PartitionReader::has_transactions() const { return impl_->has_transactions(); }
int PartitionReader::partition() const { return impl_->partition(); }
const std::string& PartitionReader::directory() const { return impl_->directory(); }

class PartitionWatch::Impl {
 public:
  Impl(const std::vector<std::string>& directories, std::chrono::milliseconds poll_interval)
      : watch(directories, !directories.empty() && os::filesystem_of(directories.front()).network, poll_interval) {}
  os::Watch watch;
};

PartitionWatch::PartitionWatch(const std::vector<std::string>& partition_directories, std::chrono::milliseconds poll_interval)
    : impl_(std::make_unique<Impl>(partition_directories, poll_interval)) {}
PartitionWatch::~PartitionWatch() = default;
void PartitionWatch::wait(std::chrono::milliseconds timeout, int wake_descriptor, int hangup_descriptor) {
  impl_->watch.wait(timeout, wake_descriptor, hangup_descriptor);
}

std::optional<PartitionName> partition_name(const std::string& path) {
  auto directory = os::absolute_path(path);
  const auto status = directory ? os::status_of(*directory) : std::nullopt;
  if (!status) return std::nullopt;
  if (!status->is_directory) directory->erase(directory->rfind('/'));
  const auto slash = directory->rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto above = directory->substr(0, slash);
  std::string topic = directory->substr(slash + 1);
  auto partition = format::parse_partition_name(topic);
  if (partition) {
    topic = above.substr(above.rfind('/') + 1);
  } else if (const auto dash = topic.rfind('-'); dash != std::string::npos) {
    partition = format::parse_partition_name(std::string_view(topic).substr(dash + 1));
    topic.erase(dash);
  }
  if (!partition || !format::name_fault(topic).empty()) return std::nullopt;
  return PartitionName{topic, *partition};
}

}  // namespace partlog

#include "partlog/reader.h"

#include <algorithm>
#include <array>

#include "format/file_names.h"
#include "log/batch_stream.h"
#include "os/watch.h"

namespace partlog {

class PartitionReader::Impl {
 public:
  Impl(const Store& store, const Topic& topic, int partition, ReaderOptions options)
      : partition_(partition),
        options_(options),
        stream_(log::PartitionDirectory(format::partition_path(topic.directory, partition), store.on_network()),
                options.window_bytes) {
    if (partition < 0 || partition >= topic.partitions) {
      throw Error(ErrorCode::invalid_argument, "topic \"" + topic.name + "\" has partitions 0 to " +
                                                   std::to_string(topic.partitions - 1) + ", no partition " +
                                                   std::to_string(partition));
    }
  }

  Offset start() const { return stream_.directory().log_start(); }
  Offset end() const { return stream_.end(); }
  Offset position() const { return position_; }
  int partition() const { return partition_; }
  const std::string& directory() const { return stream_.directory().path(); }
  std::int32_t leader_epoch() const { return epoch_; }
  TimestampType timestamp_type() const { return type_; }

  void seek(Offset offset) {
    position_ = offset;
    stream_.seek(offset);
    in_batch_ = false;
    decoded_ = {};
  }

  std::span<const Record> read(std::optional<Offset> limit) {
    for (;;) {
      if (limit && position_ >= *limit) return {};
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
        if (!decoder_.fault().empty()) throw Error(ErrorCode::damaged, stream_.place() + ": " + decoder_.fault());
        in_batch_ = false;
        position_ = std::max(position_, stream_.header().next_offset());
        stream_.advance(position_);
      }
      if (!stream_.next()) return false;
      const auto& header = stream_.header();
      in_batch_ = true;
      epoch_ = header.leader_epoch;
      type_ = header.timestamp_type();
      if (header.is_control()) {
        in_batch_ = false;
        position_ = std::max(position_, header.next_offset());
        stream_.advance(position_);
        continue;
      }
      decoder_.start(header, stream_.batch(), options_.decompression_limit);
    }
  }

  void skip_below_position() {
    while (!decoded_.empty() && decoded_.front().offset < position_) decoded_ = decoded_.subspan(1);
  }

  std::optional<OffsetAndTimestamp> first_record(Timestamp time, std::optional<Offset> limit) {
    if (!stream_.seek_time(time)) return std::nullopt;
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
  Offset position_;
  std::int32_t epoch_ = no_epoch;
  TimestampType type_ = TimestampType::create_time;
};

PartitionReader::PartitionReader(const Store& store, const Topic& topic, int partition, ReaderOptions options)
    : impl_(std::make_unique<Impl>(store, topic, partition, options)) {}
PartitionReader::~PartitionReader() = default;
PartitionReader::PartitionReader(PartitionReader&&) noexcept = default;
PartitionReader& PartitionReader::operator=(PartitionReader&&) noexcept = default;
Offset PartitionReader::start() const { return impl_->start(); }
Offset PartitionReader::end() { return impl_->end(); }
std::optional<Offset> PartitionReader::offset_at(Timestamp time, std::optional<Offset> limit) {
  return impl_->offset_at(time, limit);
}
std::optional<PartitionReader::OffsetAndTimestamp> PartitionReader::max_timestamp() { return impl_->max_timestamp(); }
Offset PartitionReader::position() const { return impl_->position(); }
void PartitionReader::seek(Offset offset) { impl_->seek(offset); }
std::span<const Record> PartitionReader::read(std::optional<Offset> limit) { return impl_->read(limit); }
std::int32_t PartitionReader::leader_epoch() const { return impl_->leader_epoch(); }
TimestampType PartitionReader::timestamp_type() const { return impl_->timestamp_type(); }
int PartitionReader::partition() const { return impl_->partition(); }
const std::string& PartitionReader::directory() const { return impl_->directory(); }

class PartitionWatch::Impl {
 public:
  Impl(const Store& store, const std::vector<std::string>& directories, std::chrono::milliseconds poll_interval)
      : watch(directories, store.on_network(), poll_interval) {}
  os::Watch watch;
};

PartitionWatch::PartitionWatch(const Store& store, const std::vector<std::string>& partition_directories,
                               std::chrono::milliseconds poll_interval)
    : impl_(std::make_unique<Impl>(store, partition_directories, poll_interval)) {}
PartitionWatch::~PartitionWatch() = default;
void PartitionWatch::wait(std::chrono::milliseconds timeout, int wake_descriptor, int hangup_descriptor) {
  impl_->watch.wait(timeout, wake_descriptor, hangup_descriptor);
}

}  // namespace partlog

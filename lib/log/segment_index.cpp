#include "log/segment_index.h"

#include <algorithm>
#include <array>
#include <utility>

#include "format/file_names.h"
#include "log/batch_scanner.h"
#include "os/directory.h"
#include "partlog/error.h"

namespace partlog::log {

using format::offset_index_entry_size;
using format::OffsetIndexEntry;
using format::time_index_entry_size;
using format::TimeIndexEntry;

namespace {

constexpr auto index_step = static_cast<std::int64_t>(offset_index_entry_size);
constexpr auto time_step = static_cast<std::int64_t>(time_index_entry_size);
constexpr std::size_t small_window = 16 << 10;

OffsetIndexEntry read_entry(const os::File& file, std::int64_t n, Offset base) {
  std::array<char, offset_index_entry_size> bytes{};
  file.read_at(bytes, n * index_step);
  return format::decode_offset_index_entry(bytes.data(), base);
}

TimeIndexEntry read_time_entry(const os::File& file, std::int64_t n, Offset base) {
  std::array<char, time_index_entry_size> bytes{};
  file.read_at(bytes, n * time_step);
  return format::decode_time_index_entry(bytes.data(), base);
}

// The number of entries n in [0, count) for which `holds` is true, if it is true for all entries before some point and false
// behind.
template <class Predicate>
std::int64_t partition_point(std::int64_t count, Predicate holds) {
  std::int64_t low = 0;
  while (low < count) {
    const auto middle = low + (count - low) / 2;
    if (holds(middle)) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}

// What `look` gives. An index that cannot be opened or read has no entries.
template <class Look>
auto usable(Look look) -> decltype(look()) {
  try {
    return look();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<os::File> open_hint(const std::string& path) {
  return usable([&] { return os::File::open_if_exists(path, os::File::Mode::read); });
}

}  // namespace

os::File open_batches(const std::string& path, os::File::Mode mode) {
  const auto open = [&]() -> std::optional<os::File> {
    try {
      auto file = os::File::open(path, mode);
      if (!file.status().is_directory) return file;
    } catch (const Error&) {
      if (!is_no_file(path)) throw;
    }
    return std::nullopt;
  };
  if (auto file = open()) return std::move(*file);
  throw Error(ErrorCode::damaged, path + ": not a regular file; move away what stands there");
}

bool is_no_file(const std::string& path) {
  if (!os::status_of_link(path)) return false;
  const auto status = os::status_of(path);
  return !status || !status->is_regular;
}

std::string SegmentFiles::log() const {
  return file.empty() ? directory + '/' + format::segment_file_name(base, format::log_suffix) : file;
}
std::string SegmentFiles::index() const {
  return file.empty() ? directory + '/' + format::segment_file_name(base, format::index_suffix) : std::string();
}
std::string SegmentFiles::time_index() const {
  return file.empty() ? directory + '/' + format::segment_file_name(base, format::time_index_suffix) : std::string();
}

// A running broker preallocates its indexes with zeros. No entry but the first can have relative offset 0 and position 0.
const IndexReader::Opened& IndexReader::index() const {
  if (index_) return *index_;
  index_ = Opened{open_hint(files_.index())};
  if (!index_->file) return *index_;
  index_->entries =
      usable([&]() -> std::optional<std::int64_t> {
        return partition_point(index_->file->size() / index_step, [&](std::int64_t n) { return entry(n).position.value != 0; });
      }).value_or(0);
  return *index_;
}

const IndexReader::Opened& IndexReader::time_index() const {
  if (time_) return *time_;
  time_ = Opened{open_hint(files_.time_index())};
  if (!time_->file) return *time_;
  time_->entries = usable([&]() -> std::optional<std::int64_t> {
                     return partition_point(time_->file->size() / time_step,
                                            [&](std::int64_t n) { return time_entry(n).timestamp.value != 0; });
                   }).value_or(0);
  return *time_;
}

OffsetIndexEntry IndexReader::entry(std::int64_t n) const { return read_entry(*index_->file, n, files_.base); }
TimeIndexEntry IndexReader::time_entry(std::int64_t n) const { return read_time_entry(*time_->file, n, files_.base); }

std::optional<OffsetIndexEntry> IndexReader::floor(Offset offset) const {
  return usable([&]() -> std::optional<OffsetIndexEntry> {
    const auto n = partition_point(index().entries, [&](std::int64_t i) { return entry(i).offset <= offset; });
    if (n == 0) return std::nullopt;
    return entry(n - 1);
  });
}

std::optional<OffsetIndexEntry> IndexReader::last() const {
  return usable([&]() -> std::optional<OffsetIndexEntry> {
    if (index().entries == 0) return std::nullopt;
    return entry(index().entries - 1);
  });
}

std::optional<TimeIndexEntry> IndexReader::time_below(Timestamp time) const {
  return usable([&]() -> std::optional<TimeIndexEntry> {
    const auto n = partition_point(time_index().entries, [&](std::int64_t i) { return time_entry(i).timestamp < time; });
    if (n == 0) return std::nullopt;
    return time_entry(n - 1);
  });
}

std::optional<TimeIndexEntry> IndexReader::last_time() const {
  return usable([&]() -> std::optional<TimeIndexEntry> {
    if (time_index().entries == 0) return std::nullopt;
    return time_entry(time_index().entries - 1);
  });
}

IndexWriter::IndexWriter(const SegmentFiles& files, std::int64_t interval_bytes)
    : base_(files.base),
      interval_(interval_bytes),
      index_(os::File::open(files.index(), os::File::Mode::create)),
      time_(os::File::open(files.time_index(), os::File::Mode::create)),
      index_size_(index_.size()),
      time_size_(time_.size()),
      largest_{no_timestamp, files.base} {}

IndexWriter::Resume IndexWriter::resume(const os::File& log) {
  if (const auto behind = resume_at_last_entry(log)) return *behind;
  if (index_size_ == 0) {
    untrimmed_ = time_size_ > 0;
    time_size_ = 0;
    return {0, base_};
  }
  reset();
  return {0, base_};
}

// The last entry is believed if the batch it names stands there whole.
std::optional<IndexWriter::Resume> IndexWriter::resume_at_last_entry(const os::File& log) {
  if (index_size_ == 0 || index_size_ % index_step != 0 || time_size_ % time_step != 0) return std::nullopt;
  const auto count = index_size_ / index_step;
  const auto entry = read_entry(index_, count - 1, base_);
  if (entry.position.value <= 0) return std::nullopt;
  if (count > 1 && read_entry(index_, count - 2, base_).offset >= entry.offset) return std::nullopt;
  BatchScanner scanner(log, entry.position.value, base_, small_window);
  scanner.hold_no_large_batches();
  if (scanner.next() != Scan::batch || scanner.header().last_offset() != entry.offset) return std::nullopt;
  drop_time_entries_behind(entry.offset);
  if (!last_time_entry_is_right(log, scanner.header())) return std::nullopt;
  indexed_position_ = entry.position.value;
  largest_ = last_time_entry();
  last_time_ = largest_.timestamp;
  return Resume{scanner.next_position(), scanner.expected()};
}

// Left by a writer that died before it added to the offset index, or before it rolled: what is due is added again, over it. The
// file is not cut before trim(), because the last entry of a segment that others have closed must stay.
void IndexWriter::drop_time_entries_behind(Offset offset) {
  const auto before = time_size_;
  while (time_size_ > 0 && last_time_entry().offset > offset) time_size_ -= time_step;
  if (time_size_ != before) untrimmed_ = true;
}

// It covers the batch indexed last, and is what a batch says whose last offset it has.
bool IndexWriter::last_time_entry_is_right(const os::File& log, const format::BatchHeader& indexed) const {
  const auto last = last_time_entry();
  if (last.timestamp < indexed.max_timestamp) return false;
  const auto count = time_size_ / time_step;
  if (count == 0) return true;
  if (count > 1 && read_time_entry(time_, count - 2, base_).timestamp >= last.timestamp) return false;
  const auto n = partition_point(index_size_ / index_step,
                                 [&](std::int64_t i) { return read_entry(index_, i, base_).offset < last.offset; });
  const auto from = n > 0 ? std::max<std::int64_t>(0, read_entry(index_, n - 1, base_).position.value) : 0;
  BatchScanner scanner(log, from, base_, small_window);
  scanner.hold_no_large_batches();
  while (scanner.next() == Scan::batch) {
    if (scanner.header().last_offset() < last.offset) continue;
    return scanner.header().last_offset() == last.offset && scanner.header().max_timestamp == last.timestamp;
  }
  return false;
}

TimeIndexEntry IndexWriter::last_time_entry() const {
  return time_size_ > 0 ? read_time_entry(time_, time_size_ / time_step - 1, base_) : TimeIndexEntry{no_timestamp, base_};
}

void IndexWriter::reset() {
  unsynced_ = true;
  if (index_size_ > 0) index_.truncate(0);
  if (time_size_ > 0 || untrimmed_) time_.truncate(0);
  index_size_ = time_size_ = indexed_position_ = 0;
  untrimmed_ = false;
  largest_ = {no_timestamp, base_};
  last_time_ = no_timestamp;
}

// The time index goes first: an entry in the offset index then tells that the time index is complete up to it.
void IndexWriter::add(const format::BatchHeader& header, std::int64_t position) {
  if (header.max_timestamp > largest_.timestamp) largest_ = {header.max_timestamp, header.last_offset()};
  if (position - indexed_position_ <= interval_) return;
  add_time_entry();
  index_.write_at(format::encode(OffsetIndexEntry{header.last_offset(), {position}}, base_), index_size_);
  index_size_ += index_step;
  unsynced_ = true;
  indexed_position_ = position;
}

void IndexWriter::add_time_entry() {
  if (largest_.timestamp <= last_time_) return;
  time_.write_at(format::encode(largest_, base_), time_size_);
  time_size_ += time_step;
  unsynced_ = true;
  last_time_ = largest_.timestamp;
}

void IndexWriter::close_segment() {
  add_time_entry();
  trim();
}

void IndexWriter::trim() {
  if (!untrimmed_) return;
  if (time_.size() > time_size_) time_.truncate(time_size_);
  untrimmed_ = false;
  unsynced_ = true;
}

void IndexWriter::sync() {
  if (!std::exchange(unsynced_, false)) return;
  index_.sync_data();
  time_.sync_data();
}

}  // namespace partlog::log

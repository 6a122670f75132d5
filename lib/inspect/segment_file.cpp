#include "partlog/segment_file.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

#include "format/batch_header.h"
#include "format/codec.h"
#include "format/file_names.h"
#include "format/index_entry.h"
#include "format/message_set.h"
#include "format/record_batch.h"
#include "inspect/checksums_ahead.h"
#include "log/partition_directory.h"
#include "log/torn_tail.h"
#include "log/window.h"
#include "os/directory.h"
#include "os/file.h"
#include "os/filesystem.h"
#include "os/threads.h"

namespace partlog {

namespace {

using format::batch_header_size;
using format::BatchHeader;

constexpr std::size_t records_at_a_time = 64;
constexpr std::size_t worth_giving_back = 16 << 10;  // gzip makes up to a thousand times as much of it
constexpr std::int64_t most_offsets = std::numeric_limits<std::int32_t>::max();  // in a segment
constexpr std::int64_t worth_threads = 8 << 20;

std::pair<std::string, std::string> split_path(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

// The base offset of the next segment in the directory; an empty one is none, where that is asked for.
std::optional<Offset> segment_behind(const std::string& directory, Offset base, bool with_batches = false) {
  std::optional<Offset> next;
  try {
    for (const auto& name : os::list_directory(directory)) {
      const auto other = format::parse_segment_file_name(name, format::log_suffix);
      if (!other || *other <= base || (next && *other >= *next)) continue;
      if (!with_batches || !log::PartitionDirectory(directory, false).is_empty(*other)) next = other;
    }
  } catch (const Error&) {
    return std::nullopt;  // a directory that may not be listed: nothing is known of others
  }
  return next;
}

BatchInfo info_of(const BatchHeader& header, std::int64_t position) {
  BatchInfo info;
  info.position = {position};
  info.size = header.size();
  info.magic = header.magic;
  info.base_offset = header.base_offset;
  info.last_offset = header.last_offset();
  info.count = header.record_count;
  info.leader_epoch = header.leader_epoch;
  info.attributes = header.attributes;
  info.base_timestamp = header.base_timestamp;
  info.max_timestamp = header.max_timestamp;
  info.producer_id = header.producer_id;
  info.producer_epoch = header.producer_epoch;
  info.base_sequence = header.base_sequence;
  info.crc = header.crc;
  return info;
}

}  // namespace

const char* compression_name(Compression codec) { return format::codec_name(codec); }

std::string partition_directory(const std::string& topic_directory, int partition) {
  return format::partition_path(topic_directory, partition);
}

std::vector<SegmentPath> segment_paths(const std::string& partition_directory) {
  std::vector<SegmentPath> found;
  const auto prefix = partition_directory.ends_with('/') ? partition_directory : partition_directory + '/';
  for (const auto& name : os::list_directory(partition_directory)) {
    if (const auto base = format::parse_segment_file_name(name, format::log_suffix)) found.push_back({prefix + name, *base});
  }
  std::sort(found.begin(), found.end(), [](const auto& one, const auto& other) { return one.base < other.base; });
  return found;
}

class SegmentFile::Impl {
 public:
  Impl(const std::string& path, InspectOptions options)
      : options_(options),
        file_(os::File::open(path, os::File::Mode::read)),
        size_(file_.size()),
        window_(file_, options.window_bytes, false) {
    std::string name;
    std::tie(directory_, name) = split_path(path);
    base_ = format::parse_segment_file_name(name, format::log_suffix);
    if (base_) {
      expected_ = *base_;
      index_path_ = path.substr(0, path.size() - format::log_suffix.size()) + std::string(format::index_suffix);
      successor_ = options.next_base;
    }
    is_placed_ = base_.has_value();
    has_looked_beside_ = !base_ || successor_;
  }

  void seek(Position position) {
    next_position_ = sought_ = position.value;
    ahead_.reset();
    gave_up_ahead_ = false;
    is_placed_ = position.value == 0 && base_;
    expected_ = is_placed_ ? *base_ : Offset{0};
    is_open_ = false;
    finding_ = {};
  }

  void seek_offset(Offset offset) {
    const auto start = indexed([&](const format::OffsetIndexEntry& entry) { return entry.offset <= offset; });
    skip(start, [&](const BatchHeader& header, std::int64_t) { return header.last_offset() < offset; });
  }

  void seek_position(Position position) {
    const auto start = indexed([&](const format::OffsetIndexEntry& entry) { return entry.position <= position; });
    skip(start, [&](const BatchHeader&, std::int64_t at) { return at < position.value; });
  }

  Step next();
  std::span<const Record> records();

  const os::File& file() const { return file_; }
  std::int64_t size() const { return size_; }
  std::optional<Offset> base() const { return base_; }
  bool has_successor() {
    look_beside();
    return successor_.has_value();
  }
  const BatchInfo& info() const { return info_; }
  const Finding& finding() const { return finding_; }
  const std::string& records_fault() const { return records_fault_; }
  Offset records_fault_offset() const { return records_fault_offset_; }

 private:
  enum class Look { batch, bad_checksum, none, cut_short, end };

  Look look();
  Look nothing(Look what, const char* why);
  Look look_again();
  const inspect::ChecksumsAhead::Batch* known_ahead();
  bool is_sound(const BatchHeader& header, std::int64_t position);
  std::optional<BatchHeader> header_at(std::int64_t position);
  std::optional<BatchHeader> header_behind(std::int64_t position, std::int64_t size_before);
  bool extent_is_right();
  bool is_behind_restart() const;
  void look_beside();
  bool is_contradicted();
  bool is_as_known();
  void unpack_wrapper();
  Step take_batch();
  bool reaches_into_next();
  Step take_bad_batch();
  Step pass_over(std::int64_t end, Step as);
  Step behind_no_batch();
  void start_records();

  template <class Predicate>
  std::int64_t indexed(Predicate is_before);
  template <class Predicate>
  void skip(std::int64_t start, Predicate is_before);

  InspectOptions options_;
  os::File file_;
  std::int64_t size_;
  log::Window window_;
  std::optional<Offset> base_;
  std::string directory_;
  std::string index_path_;
  std::optional<Offset> successor_;             // the base offset of the next segment
  bool has_looked_beside_;                      // for the next segment, or for what is
  std::optional<format::RecoveryPoint> known_;  // of the last one

  std::unique_ptr<inspect::ChecksumsAhead> ahead_;
  bool gave_up_ahead_ = false;  // it was tried once, since the last seek
  std::int64_t sought_ = 0;     // where reading began

  std::int64_t position_ = 0;
  std::int64_t next_position_ = 0;
  Offset expected_;
  bool is_placed_ = false;  // expected_ says something
  BatchHeader header_;
  std::span<const char> batch_;  // empty: not read, or too large to be held
  const char* why_ = "";
  BatchInfo info_;
  Finding finding_;

  format::MessageSet set_;
  format::RecordDecoder decoder_;
  std::array<Record, records_at_a_time> records_;
  bool is_open_ = false;  // the records of batch_ can be asked for
  bool started_ = false;
  std::string records_fault_;
  Offset records_fault_offset_;
};

SegmentFile::Impl::Look SegmentFile::Impl::nothing(Look what, const char* why) {
  why_ = why;
  return what;
}

// What stands at position_.
SegmentFile::Impl::Look SegmentFile::Impl::look() {
  if (const auto* known = known_ahead()) {
    header_ = known->header;
    batch_ = {};
    return known->sum == header_.crc ? Look::batch : nothing(Look::bad_checksum, "its checksum is wrong");
  }
  auto bytes = window_.view(position_, batch_header_size);
  if (bytes.empty()) return Look::end;
  if (bytes.size() < format::batch_magic_end) return nothing(Look::cut_short, "the file ends inside a batch header");
  const auto magic = bytes[format::field::magic];
  if (magic < 0 || magic > 2) return nothing(Look::none, "no record batch stands here");
  if (bytes.size() < format::header_size_of(magic)) return nothing(Look::cut_short, "the file ends inside a batch header");
  header_ = format::read_batch_header(bytes);
  if (const char* fault = format::header_fault(header_)) {
    return nothing(Look::none, magic == 2 ? fault : "no record batch stands here");
  }
  const auto size = static_cast<std::size_t>(header_.size());
  std::uint32_t sum = 0;
  if (size <= options_.largest_batch) {
    bytes = window_.view(position_, size);
    if (bytes.size() < size) return nothing(Look::cut_short, "the file ends inside the batch");
    batch_ = bytes.first(size);
    sum = format::extend_checksum(header_, 0, batch_.subspan(format::checksum_start(header_)));
  } else {
    if (header_.size() > file_.size() - position_) return nothing(Look::cut_short, "the file ends inside the batch");
    sum = inspect::checksum_of(window_, position_, header_);
    batch_ = {};
  }
  return sum == header_.crc ? Look::batch : nothing(Look::bad_checksum, "its checksum is wrong");
}

// The batch at position_, if threads have looked at it already. They are set to work once much was read without a break, and more
// is left. Of a wrapper more than the header is needed.
const inspect::ChecksumsAhead::Batch* SegmentFile::Impl::known_ahead() {
  if (!ahead_) {
    const bool is_worth_it = position_ - sought_ >= worth_threads && size_ - position_ >= 2 * worth_threads;
    if (!is_worth_it || gave_up_ahead_) return nullptr;
    gave_up_ahead_ = true;
    const auto threads = std::min(os::processors(), options_.threads);
    if (threads < 2) return nullptr;
    ahead_ = std::make_unique<inspect::ChecksumsAhead>(file_, position_, size_, threads);
  }
  const auto* known = ahead_->at(position_);
  if (known == nullptr) ahead_.reset();
  return known == nullptr || known->header.is_wrapper() ? nullptr : known;
}

// As the file is now.
SegmentFile::Impl::Look SegmentFile::Impl::look_again() {
  ahead_.reset();
  window_.forget();
  return look();
}

// A header without fault whose batch ends inside the file.
std::optional<BatchHeader> SegmentFile::Impl::header_at(std::int64_t position) {
  std::array<char, batch_header_size> bytes;
  const auto got = file_.read_at(bytes, position);
  const auto header = format::read_whole_header(std::span<const char>(bytes).first(got));
  if (!header || format::header_fault(*header) != nullptr || header->size() > file_.size() - position) return std::nullopt;
  return header;
}

bool SegmentFile::Impl::is_sound(const BatchHeader& header, std::int64_t position) {
  log::Window window(file_, std::min(options_.window_bytes, static_cast<std::size_t>(header.size())), false);
  return header.size() <= file_.size() - position && inspect::checksum_of(window, position, header) == header.crc;
}

// Whether the batch with the wrong checksum ends where its header says: there the file ends, or a sound batch begins.
bool SegmentFile::Impl::extent_is_right() {
  const auto end = position_ + header_.size();
  if (end == size_) return true;
  const auto next = header_at(end);
  return next && is_sound(*next, end);
}

// Behind what was synced before the host restarted anything may be missing, so that the log ends at what is no batch.
bool SegmentFile::Impl::is_behind_restart() const {
  if (!base_) return false;
  try {
    const auto point = log::PartitionDirectory(directory_, os::filesystem_of(directory_).network).suspect_from();
    return point && (*base_ > point->segment || (*base_ == point->segment && position_ >= point->position.value));
  } catch (const Error&) {
    return false;
  }
}

// Whether the batch behind this one has an offset that this one already covers.
bool SegmentFile::Impl::is_contradicted() {
  const auto end = position_ + header_.size();
  const auto next = header_at(end);
  if (!next || next->last_offset() >= header_.next_offset()) {
    return next && !next->is_wrapper() && next->base_offset < header_.next_offset() && is_sound(*next, end);
  }
  return is_sound(*next, end);
}

// Listing a directory of many empty segments once for each of them would take long: not before there is something to be judged.
void SegmentFile::Impl::look_beside() {
  if (std::exchange(has_looked_beside_, true)) return;
  successor_ = segment_behind(directory_, *base_);
  if (!successor_) known_ = log::PartitionDirectory(directory_, os::filesystem_of(directory_).network).point_in(*base_);
}

// As BatchScanner has it.
bool SegmentFile::Impl::is_as_known() {
  if (!known_ || known_->position.value == 0 || next_position_ < known_->position.value) return true;
  return next_position_ == known_->position.value && header_.next_offset() == known_->offset;
}

void SegmentFile::Impl::unpack_wrapper() {
  header_.record_count = -1;
  if (batch_.empty()) return;
  set_.open(header_, batch_, options_.decompression_limit);
  if (set_.fault().empty()) header_ = set_.header();
  if (batch_.size() > worth_giving_back) set_.release();
}

// An empty file inside of this segment is not the next one.
bool SegmentFile::Impl::reaches_into_next() {
  look_beside();
  if (!successor_ || header_.last_offset() < *successor_) return false;
  if (header_.base_offset != expected_ || !log::PartitionDirectory(directory_, false).is_empty(*successor_)) return true;
  successor_ = segment_behind(directory_, *base_, true);
  return successor_ && header_.last_offset() >= *successor_;
}

SegmentFile::Step SegmentFile::Impl::take_batch() {
  if (header_.is_wrapper()) unpack_wrapper();
  next_position_ = position_ + header_.size();
  info_ = info_of(header_, position_);
  finding_ = {{position_}, {next_position_}, expected_, {}};
  is_open_ = true;
  if (!is_placed_) {
    is_placed_ = true;
    expected_ = header_.base_offset;
  }
  if (header_.base_offset < expected_) {
    finding_.reason = "its offset does not rise";
    expected_ = std::max(expected_, header_.next_offset());
  } else if (reaches_into_next()) {
    finding_.reason = "its offset does not fit: the next segment begins with " + std::to_string(successor_->value);
  } else if (header_.base_offset > expected_ && (header_.last_offset() - expected_ > most_offsets || is_contradicted())) {
    finding_.reason = "its offset does not fit what is around it";
  } else if (header_.base_offset > expected_ && !is_as_known()) {
    finding_.reason = "its offset does not fit the recovery point";
  } else {
    expected_ = header_.next_offset();
  }
  if (finding_.reason.empty() || !is_behind_restart()) return Step::batch;
  next_position_ = std::max(next_position_, file_.size());
  finding_.end = {next_position_};
  is_open_ = false;
  return Step::torn_tail;
}

SegmentFile::Step SegmentFile::Impl::take_bad_batch() {
  if (header_.is_wrapper()) header_.record_count = -1;
  next_position_ = position_ + header_.size();
  info_ = info_of(header_, position_);
  info_.is_valid = false;
  finding_ = {{position_}, {next_position_}, expected_, why_};
  look_beside();
  const bool is_last = !successor_ && next_position_ == file_.size();
  if (is_last) finding_.next = log::next_behind_last(file_, position_, expected_);
  // Its fields are worth nothing; but where they fit, the offsets behind it are not missing.
  if (header_.base_offset == expected_ && header_.last_offset() - expected_ <= most_offsets && !is_contradicted()) {
    expected_ = header_.next_offset();
  }
  return Step::batch;
}

SegmentFile::Step SegmentFile::Impl::pass_over(std::int64_t end, Step as) {
  finding_ = {{position_}, {end}, expected_, why_};
  next_position_ = end;
  return as;
}

SegmentFile::Step SegmentFile::Impl::behind_no_batch() {
  const auto expected = is_placed_ ? expected_ : Offset{0};
  const auto found = options_.expect_any_offsets ? log::first_of_any_behind(file_, position_, expected)
                                                 : log::first_batch_behind(file_, position_, expected);
  look_beside();
  // A live writer may have finished the batch and appended others meanwhile.
  if (look_again() == Look::batch) return take_batch();
  if (found) return pass_over(*found, Step::damage);
  const auto next = successor_ ? std::nullopt : log::next_behind_last(file_, position_, expected_);
  const auto step = pass_over(std::max(position_, file_.size()), successor_ || next ? Step::damage : Step::torn_tail);
  finding_.next = next;
  return step;
}

SegmentFile::Step SegmentFile::Impl::next() {
  is_open_ = started_ = false;
  records_fault_.clear();
  position_ = next_position_;
  if (position_ >= size_) {
    finding_ = {{position_}, {position_}, expected_, {}};
    return Step::end;
  }
  auto found = look();
  if (found == Look::batch) return take_batch();
  found = look_again();
  if (found == Look::batch) return take_batch();
  if (found == Look::end) {  // cut meanwhile
    finding_ = {{position_}, {position_}, expected_, {}};
    return Step::end;
  }
  if (is_behind_restart()) return pass_over(std::max(position_, file_.size()), Step::torn_tail);
  if (found == Look::bad_checksum && extent_is_right()) return take_bad_batch();
  return behind_no_batch();
}

void SegmentFile::Impl::start_records() {
  started_ = true;
  if (batch_.empty() && static_cast<std::size_t>(header_.size()) <= options_.largest_batch) {
    const auto size = static_cast<std::size_t>(header_.size());
    const auto bytes = window_.view(position_, size);
    if (bytes.size() >= size) batch_ = bytes.first(size);
  }
  if (batch_.empty()) {
    records_fault_ = "the batch is too large to be looked into";
    records_fault_offset_ = info_.base_offset;
    is_open_ = false;
    return;
  }
  auto header = header_;
  if (header.record_count < 0) header.record_count = 0;  // of a wrapper: not known
  decoder_.start(header, batch_, options_.decompression_limit);
}

std::span<const Record> SegmentFile::Impl::records() {
  if (!is_open_) return {};
  if (!started_) start_records();
  if (!is_open_) return {};
  const auto count = decoder_.decode(records_);
  if (count > 0) return std::span(records_).first(count);
  is_open_ = false;
  if (!decoder_.fault().empty()) {
    records_fault_ = decoder_.fault();
    records_fault_offset_ = decoder_.fault_offset();
  }
  return {};
}

// The position of the last index entry for which `is_before` holds, if a sound batch with its offset stands there; else 0.
template <class Predicate>
std::int64_t SegmentFile::Impl::indexed(Predicate is_before) {
  if (index_path_.empty()) return 0;
  try {
    const auto index = os::File::open_if_exists(index_path_, os::File::Mode::read);
    if (!index) return 0;
    std::int64_t low = 0;
    std::int64_t high = index->size() / static_cast<std::int64_t>(format::offset_index_entry_size);
    format::OffsetIndexEntry best{};
    while (low < high) {
      const auto middle = low + (high - low) / 2;
      std::array<char, format::offset_index_entry_size> bytes{};
      const auto at = middle * static_cast<std::int64_t>(bytes.size());
      if (index->read_at(bytes, at) < bytes.size()) return 0;
      const auto entry = format::decode_offset_index_entry(bytes.data(), *base_);
      const bool is_padding = entry.position.value == 0;
      if (!is_padding && is_before(entry)) {
        best = entry;
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (best.position.value <= 0 || best.position.value >= size_) return 0;
    const auto header = header_at(best.position.value);
    const bool is_right = header && header->last_offset() >= best.offset && is_sound(*header, best.position.value) &&
                          (header->is_wrapper() || header->base_offset <= best.offset);
    return is_right ? best.position.value : 0;
  } catch (const Error&) {
    return 0;  // a hint only
  }
}

// The header of the next batch, where the one before it has this size: small ones are read many at a time.
std::optional<BatchHeader> SegmentFile::Impl::header_behind(std::int64_t position, std::int64_t size_before) {
  constexpr std::int64_t worth_a_call = 4096;
  if (size_before >= worth_a_call) return header_at(position);
  const auto header = format::read_whole_header(window_.view(position, batch_header_size));
  if (!header || format::header_fault(*header) != nullptr || header->size() > size_ - position) return std::nullopt;
  return header;
}

// Goes by headers alone from `start` to the first batch for which `is_before` does not hold. If no sound batch stands there, all
// has to be read.
template <class Predicate>
void SegmentFile::Impl::skip(std::int64_t start, Predicate is_before) {
  auto at = start;
  std::optional<BatchHeader> header;
  std::int64_t last_size = 0;
  while (at < size_ && (header = header_behind(at, last_size)) && is_before(*header, at)) {
    last_size = header->size();
    at += last_size;
  }
  const bool is_safe = at == size_ || (header && is_sound(*header, at));
  seek({is_safe ? at : start});
}

SegmentFile::Step SegmentFile::next() { return impl_->next(); }

SegmentFile::SegmentFile(const std::string& path, InspectOptions options) : impl_(std::make_unique<Impl>(path, options)) {}
SegmentFile::~SegmentFile() = default;
SegmentFile::SegmentFile(SegmentFile&&) noexcept = default;
SegmentFile& SegmentFile::operator=(SegmentFile&&) noexcept = default;

const std::string& SegmentFile::path() const { return impl_->file().path(); }
std::int64_t SegmentFile::size() const { return impl_->size(); }
std::optional<Offset> SegmentFile::base_offset() const { return impl_->base(); }
bool SegmentFile::has_successor() const { return impl_->has_successor(); }
void SegmentFile::seek(Position position) { impl_->seek(position); }
void SegmentFile::seek_offset(Offset offset) { impl_->seek_offset(offset); }
void SegmentFile::seek_position(Position position) { impl_->seek_position(position); }
const BatchInfo& SegmentFile::batch() const { return impl_->info(); }
const SegmentFile::Finding& SegmentFile::finding() const { return impl_->finding(); }
std::span<const Record> SegmentFile::records() { return impl_->records(); }
const std::string& SegmentFile::records_fault() const { return impl_->records_fault(); }
Offset SegmentFile::records_fault_offset() const { return impl_->records_fault_offset(); }

}  // namespace partlog

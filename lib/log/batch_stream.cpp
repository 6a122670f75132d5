#include "log/batch_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "log/torn_tail.h"
#include "os/clock.h"
#include "os/directory.h"
#include "partlog/error.h"

namespace partlog::log {

namespace {

constexpr const char* missing_start = "the first segment is missing, or files of a broker were put here";
constexpr int stale_retries = 5;
constexpr std::int64_t racy_ms = 1000;  // a directory that changed so shortly before it was listed may change again unseen

std::string number(std::int64_t n) { return std::to_string(n); }

// A file that vanished or was replaced on the server between listing and opening.
bool is_stale(const Error& error) { return error.system_error() == ESTALE || error.code() == ErrorCode::not_found; }

[[noreturn]] void throw_damaged(const std::string& path, std::int64_t position, Offset offset, const std::string& why) {
  throw Error(ErrorCode::damaged, path + " position " + number(position) + " (offset " + number(offset.value) + "): " + why);
}

}  // namespace

void BatchStream::seek(Offset offset) {
  position_ = offset;
  open_.reset();
  leaving_for_.reset();
  loss_.reset();
}

bool BatchStream::next() {
  for (int attempt = 0;; ++attempt) {
    try {
      return next_in_open_segments();
    } catch (const Error& error) {
      if (!is_stale(error) || attempt == stale_retries) throw;
      seek(position_);
      forget_listing();
    }
  }
}

void BatchStream::look_ahead() {
  strict_ = !directory_.in_store();
  if (strict_) torn_.reset();  // next() was content with less
  next();
  strict_ = false;
  seek(position_);
}

bool BatchStream::next_in_open_segments() {
  if (!open_) locate();
  fresh_ = false;
  while (open_) {
    const auto expected = open_->scanner.expected();
    switch (open_->scanner.next()) {
      case Scan::batch:
        if (is_beyond_end()) [[unlikely]]
          return false;
        if (loss_) [[unlikely]]
          tell_loss(header().base_offset);
        if (ahead_) [[unlikely]]
          tell_ahead(expected, header().base_offset, header().next_offset());
        if (header().base_offset > expected) [[unlikely]]
          look_at_hole_inside(expected, header().base_offset);
        if (header().last_offset() >= position_) return true;
        break;
      case Scan::end:
        if (!go_on_behind_segment()) return is_end();
        break;
      default:
        if (!reread()) return is_end();
    }
  }
  return is_end();
}

void BatchStream::end_here() {
  const auto base = bases().empty() ? directory_.log_start() : bases_.back();
  const auto status = os::status_of(directory_.segment(base).log());
  end_here_ = {base, status ? status->size : 0};
}

bool BatchStream::is_beyond_end() const {
  return end_here_ &&
         (open_->base > end_here_->base || (open_->base == end_here_->base && open_->scanner.position() >= end_here_->position));
}

// False, if the position may stand there.
bool BatchStream::is_end() {
  if (loss_) tell_loss_at_end();
  if (ahead_) tell_ahead_at_end();
  if (elsewhere_) tell_elsewhere();
  if (std::exchange(end_is_open_, false)) look_for_last_segment();
  if (open_ && position_ <= open_->scanner.expected()) return false;
  const auto stop = open_ ? open_->scanner.expected() : Offset{0};
  if (directory_.starts_behind(stop)) {
    seek(position_);
    directory_.throw_starts_behind(stop);
  }
  const auto end = std::max({stop, directory_.log_start(), told_to_});
  if (position_ <= end) return false;
  seek(position_);
  throw Error(ErrorCode::offset_out_of_range,
              directory_.path() + ": offset " + number(position_.value) + " is beyond the end offset " + number(end.value));
}

// If it reaches up to what was on stable storage, it is known how far that went.
void BatchStream::tell_loss_at_end() {
  const auto point = open_ ? directory_.point_for_reader() : std::nullopt;
  if (point && point->segment == open_->base && point->position.value <= loss_->end.value)
    loss_->next = std::max(loss_->next, point->offset);
  if (take_loss_) told_to_ = std::max(told_to_, loss_->next);
  tell_loss(open_ ? open_->scanner.expected() : loss_->first);
}

// The log ends below what was on stable storage, since the segment that held it is not there. Not so, if that is a repair's work,
// or the topic's deletion. The position stays: a writer will go on there.
void BatchStream::look_for_last_segment() {
  const auto end = open_ ? open_->scanner.expected() : Offset{0};
  if (directory_.is_single()) return;
  const auto point = directory_.point_for_reader();
  if (!point && !directory_.in_store()) look_for_segment_of_index(end);
  if (!point || point->offset <= end) return;
  const auto path = directory_.segment(point->segment).log();
  const auto is_missing = [&] { return !os::status_of(path) && !directory_.is_under_repair(); };
  if (!is_missing() || directory_.point_for_reader() != point || !is_missing()) return;
  const auto from = std::max({end, directory_.log_start(), position_});
  directory_in_place();
  if (from >= point->offset || directory_.are_known_lost(from, point->offset) || (take_loss_ && told_of_end_)) return;
  told_of_end_ = true;
  end_is_open_ = !take_loss_;
  const auto stay = position_;
  missing(path, 0, from, point->offset, "this segment, which was on stable storage, is missing");
  position_ = stay;
}

// Of a directory that does not say what was in it.
void BatchStream::look_for_segment_of_index(Offset end) {
  const auto gone = directory_.missing_end(open_ ? open_->base : end);
  if (!gone || std::exchange(told_of_end_, take_loss_ != nullptr)) return;
  const auto stay = position_;
  missing(directory_.segment(gone->first).log(), 0, std::min(end, gone->first), gone->second + 1, index_is_left);
  position_ = stay;
}

// The position stays: a writer will go on there.
void BatchStream::tell_ahead_at_end() {
  const auto end = open_ ? open_->scanner.expected() : ahead_->first;
  const bool is_believed = ahead_->first == end || (elsewhere_ && elsewhere_->next >= ahead_->next);
  const auto stay = position_;
  tell_ahead(end, is_believed ? ahead_->next : end, ahead_->next);
  if (elsewhere_ && elsewhere_->next <= position_) elsewhere_.reset();
  position_ = stay;
}

// What stood where it does not belong, behind the end of the log, and was not in its own place either.
void BatchStream::tell_elsewhere() {
  auto range = *std::exchange(elsewhere_, std::nullopt);
  if (!open_ || range.next <= open_->scanner.expected()) return;
  range.first = std::max(position_, open_->scanner.expected());
  range.reason = "they stand in the place of others";
  if (range.first < range.next) take_loss_(range);
}

// Of a sound batch that was left out, as it stood in front of others with smaller offsets: the log has nothing from `from` to
// below `below`, which may be its offsets, and goes on to `next`.
void BatchStream::tell_ahead(Offset from, Offset below, Offset next) {
  auto range = *ahead_;
  const bool is_decided = next >= range.next;
  if (is_decided) ahead_.reset();
  const auto before = std::min(below, range.first);
  look_at_hole_inside(from, before);
  position_ = std::max(position_, before);
  range.first = std::max({from, range.first, position_});
  range.next = std::min(below, range.next);
  if (range.first >= range.next) {
    if (!is_decided) return;
    range.first = range.next;  // they stand elsewhere as well
  } else {
    position_ = std::max(position_, range.next);
  }
  take_loss_(range);
}

// Not another topic, made anew under the same name, whose offsets say nothing about the old one's.
os::FileStatus BatchStream::directory_in_place() {
  const auto status = os::status_of(directory_.path());
  if (!directory_id_ && status) directory_id_ = status->id;
  if (!status || status->id != *directory_id_) {
    throw Error(ErrorCode::not_found, directory_.path() + ": the topic was deleted while it was being read");
  }
  return *status;
}

// A listing is good until the directory changes; one made shortly after a change may have missed another in the same tick of the
// clock.
const std::vector<Offset>& BatchStream::bases() {
  const auto status = directory_in_place();
  if (directory_.on_network() || !settled_ || status.modified_ms != listed_change_) list(status);
  return bases_;
}

void BatchStream::list(const os::FileStatus& directory) {
  settled_ = os::clock().now().value - directory.modified_ms > racy_ms;
  listed_change_ = directory.modified_ms;
  end_is_open_ = true;
  bases_ = directory_.segment_bases();
  leave_out_strays();
}

// An empty file behind the end of the log, or inside another segment, that was put there by a stranger. Whether it has a place in
// the log is looked at where it is the last one; else only where it gets in the way. Likewise what is no file.
void BatchStream::leave_out_strays() {
  std::erase_if(strays_, [this](Offset base) { return !directory_.is_empty(base) && !directory_.is_no_file(base); });
  for (const auto stray : strays_) std::erase(bases_, stray);
  auto first = bases_.end();
  while (first - bases_.begin() > 1 && directory_.is_empty(*(first - 1))) --first;
  if (first == bases_.end() || suspect() || directory_.is_no_file(*(first - 1))) return;
  const std::vector<Offset> empty(first, bases_.end());
  bases_.erase(first, bases_.end());
  const auto before = open(bases_.back(), false, Offset{std::numeric_limits<std::int64_t>::max()});
  const auto end = end_of_segment(*before, before->scanner);
  const auto kept = directory_.in_log(empty, end);
  bases_.insert(bases_.end(), kept.begin(), kept.end());
}

bool BatchStream::leave_out_if_empty(Offset base) {
  if (!directory_.is_empty(base)) return false;
  leave_out(base);
  return true;
}

void BatchStream::leave_out(Offset base) {
  strays_.push_back(base);
  std::erase(bases_, base);
}

// What has the name of a segment, but is no file, is damage up to the next one, or to what was on stable storage: there the
// position stays, as above.
bool BatchStream::pass_over_no_file(Offset base) {
  if (!take_loss_ || !directory_.is_no_file(base)) return false;
  if (!open_ && is_inside_segment(base)) return leave_out_no_file(base);
  if (loss_) tell_loss(base);
  const bool is_last = !has_successor(base);
  const auto first = std::max(base, position_);
  const auto stable = is_last ? directory_.stable_end().value_or(base) : base;
  const auto next = is_last ? std::max(first, stable) : limit_of(base);
  leave_out(base);
  told_to_ = std::max(told_to_, next);  // after a restart nothing more may follow
  if (is_last) {
    told_of_end_ = true;
  } else {
    position_ = std::max(position_, next);
  }
  take_loss_({directory_.segment(base).log(),
              {0},
              {0},
              first,
              next,
              !is_last || stable > base ? "not a regular file" : "not a regular file; nobody knows whether offsets are missing"});
  return true;
}

// The same inside another segment, which has all that is there.
bool BatchStream::leave_out_no_file(Offset base) {
  if (!take_loss_ || !directory_.is_no_file(base)) return false;
  leave_out(base);
  take_loss_({directory_.segment(base).log(), {0}, {0}, base, base, "not a regular file"});
  return true;
}

// Whether the segment before this one goes on beyond its offset.
bool BatchStream::is_inside_segment(Offset base) const {
  const auto at = std::lower_bound(bases_.begin(), bases_.end(), base);
  if (at == bases_.begin() || directory_.is_no_file(*(at - 1))) return false;
  const auto before = open(*(at - 1), true, base);
  auto& scanner = before->scanner;
  scanner.hold_no_large_batches();
  while (scanner.next() == Scan::batch) continue;
  return scanner.reaches_too_far() && scanner.header().base_offset == scanner.expected();
}

// The open segment, in front of a hole, may be an empty file inside of another one.
bool BatchStream::leave_empty_segment() {
  const bool is_first = bases_.empty() || open_->base <= bases_.front();
  if (loss_ || is_first || is_stray(open_->base) || open_->scanner.next_position() > 0 || !leave_out_if_empty(open_->base))
    return false;
  auto before = std::lower_bound(bases_.begin(), bases_.end(), open_->base) - bases_.begin();
  while (before > 1 && leave_out_if_empty(bases_[static_cast<std::size_t>(before - 1)])) --before;
  seek(position_);
  locate();
  return true;
}

void BatchStream::forget_listing() {
  settled_ = false;
  listed_change_ = 0;
  bases_.clear();
  listed_end_ = {};
}

// A listing that is made while segments are made may show one and miss another made before it. One that begins after a segment
// was seen shows all that were made before that one.
const std::vector<Offset>& BatchStream::bases_listed_anew() {
  settled_ = false;
  return bases();
}

// To find the segment that holds an offset: segments come at the end only, and what is gone shows when it is opened. Nothing may
// be concluded from that none follows.
const std::vector<Offset>& BatchStream::bases_around(Offset offset) {
  const auto status = directory_in_place();
  const bool is_inside = !bases_.empty() && bases_.front() <= offset && offset < bases_.back();
  if (directory_.on_network() || (!is_inside && status.modified_ms != listed_change_)) list(status);
  return bases_;
}

// Once the host has not restarted since the recovery point was written, it will not while this process lives.
std::optional<format::RecoveryPoint> BatchStream::suspect() const {
  if (!suspicious_) return std::nullopt;
  auto point = directory_.suspect_if_readable();
  suspicious_ = point.has_value();
  return point;
}

void BatchStream::require_from(Offset start) const {
  if (position_ >= start) return;
  throw Error(ErrorCode::offset_out_of_range, directory_.path() + ": offset " + number(position_.value) +
                                                  " is below the log start offset " + number(start.value));
}

void BatchStream::locate() {
  require_from(directory_.log_start());
  if (bases_around(position_).empty() || bases_.front() > position_) bases_listed_anew();
  if (bases_.empty()) return;
  if (bases_.front() > position_) look_at_missing_start();
  while (!open_ && !bases_.empty()) {
    auto at = std::upper_bound(bases_.begin(), bases_.end(), position_);
    if (at != bases_.begin()) --at;
    try_to_open(*at);
  }
}

void BatchStream::try_to_open(Offset base) {
  try {
    open_ = open(base, has_successor(base), std::max(position_, base));
  } catch (const Error&) {
    if (!pass_over_no_file(base)) throw;
  }
}

BatchStream::Segment BatchStream::open_at(Offset base, std::int64_t position, Offset expected, bool mapped) const {
  auto segment = std::make_unique<OpenSegment>(directory_.segment(base).open_log(os::File::Mode::read), base, position, expected,
                                               window_bytes_, mapped);
  segment->scanner.set_limit(limit_of(base));
  segment->scanner.set_largest(largest_batch_);
  if (!holds_large_) segment->scanner.hold_no_large_batches();
  if (const auto point = has_successor(base) ? std::nullopt : directory_.point_in(base))
    segment->scanner.set_known(point->position.value, point->offset, position == 0 || expected > base);
  return segment;
}

// By the last listing.
bool BatchStream::has_successor(Offset base) const { return limit_of(base).value != std::numeric_limits<std::int64_t>::max(); }

// The offset that no batch of a segment reaches, because the next one begins there.
Offset BatchStream::limit_of(Offset base) const {
  const auto next = std::upper_bound(bases_.begin(), bases_.end(), base);
  if (next != bases_.end()) return *next;
  return directory_.bound(strays_).value_or(Offset{std::numeric_limits<std::int64_t>::max()});
}

// The index says where to begin; if that cannot be right, the segment is read from its start.
BatchStream::Segment BatchStream::open(Offset base, bool has_successor, Offset from, const IndexReader& index) const {
  const auto suspicious = suspect();
  const bool mapped = has_successor && !directory_.on_network() && (!suspicious || base < suspicious->segment);
  const auto entry = index.floor(from);
  const auto position = entry && entry->position.value > 0 ? entry->position.value : 0;
  auto segment = open_at(base, position, base, mapped);
  if (position == 0) return segment;
  const bool is_right = is_indexed_there(segment->scanner, entry->offset);
  if (!is_right || segment->scanner.expected() > from) segment->scanner.restart(is_right ? position : 0, base);
  return segment;
}

// Whether an index entry with this offset is right about the place where the scanner begins. The offset is the last of the batch
// there. In what brokers appended several batches at once it is the last of all these, and before KAFKA-6530 (2.0) the first.
bool BatchStream::is_indexed_there(BatchScanner& scanner, Offset offset) {
  if (scanner.next() != Scan::batch) return false;
  if (scanner.header().base_offset == offset) return true;
  while (scanner.header().last_offset() < offset && scanner.next() == Scan::batch) {
  }
  return scanner.header().last_offset() == offset;
}

// At the clean end of the open segment. True: look there again, or in the segment that is open now. False: it is the last one.
bool BatchStream::go_on_behind_segment() {
  if (directory_.on_network() && !fresh_) {
    reopen_fresh();
    return true;
  }
  if (leaving_for_) {
    const auto base = *std::exchange(leaving_for_, std::nullopt);
    if (leave_empty_segment()) return true;
    look_at_hole(open_->scanner.expected(), base);
    bases_around(base);
    try_to_open(base);
    return true;
  }
  leaving_for_ = successor();
  if (!leaving_for_) return false;
  // Whatever was appended here before the later segment was made is in the file by now.
  directory_.on_network() ? reopen_fresh() : open_->scanner.refresh();
  return true;
}

// On a network file system only a fresh open sees what other hosts wrote: the directory first, then the segment.
void BatchStream::reopen_fresh() {
  os::File::open(directory_.path(), os::File::Mode::read);
  const auto position = open_->scanner.next_position();
  open_ = open_at(open_->base, position, open_->scanner.expected(), false);
  fresh_ = true;
}

// The segment in which the log goes on behind the open one. Looked up by name where it begins with the next offset, as it nearly
// always does.
std::optional<Offset> BatchStream::successor() {
  const auto expected = open_->scanner.expected();
  directory_in_place();
  if (directory_.is_single()) return std::nullopt;
  if (expected != open_->base && !is_stray(expected) && os::status_of(directory_.segment(expected).log())) return expected;
  if (!successor_among(bases())) return std::nullopt;
  return successor_among(bases_listed_anew());
}

// One that a later segment follows: nothing is appended to it any more. There may be many.
bool BatchStream::is_surely_empty(Offset base) const {
  if (!directory_.on_network()) return directory_.is_empty(base);
  const auto file = os::File::open_if_exists(directory_.segment(base).log(), os::File::Mode::read);
  return file && file->size() == 0;
}

std::optional<Offset> BatchStream::successor_among(const std::vector<Offset>& all) const {
  const auto expected = open_->scanner.expected();
  auto above = std::upper_bound(all.begin(), all.end(), expected);
  if (above != all.begin()) {
    const auto floor = *(above - 1);
    if (floor != open_->base) return floor;  // also one below: the open segment is gone, merged into that one
    const auto status = os::status_of(directory_.segment(floor).log());
    if (status && status->id != open_->id) return floor;
  }
  while (above != all.end() && above + 1 != all.end() && is_surely_empty(*above)) ++above;
  if (above == all.end()) return std::nullopt;
  // Behind the recovery point of another boot a gap is where the log ended.
  if (const auto point = suspect(); point && *above > point->segment && *above != expected) return std::nullopt;
  return *above;
}

bool BatchStream::behind_restart(Offset base, std::int64_t position) const {
  const auto point = suspect();
  return point && (base > point->segment || (base == point->segment && position >= point->position.value));
}

// Of what is not behind the restart: a file that still reaches as far as what was on stable storage was not cut off.
bool BatchStream::is_in_stable_part(Offset base, std::int64_t position) const {
  const auto point = suspect();
  return point && point->segment == base && position < point->position.value && open_->file.size() >= point->position.value;
}

// What the open scanner stands at is damage. Returns (true) behind it where that is passed over, or may lie before what is
// wanted.
bool BatchStream::damaged() {
  BatchScanner& scanner = open_->scanner;
  const auto& path = open_->file.path();
  if (!take_loss_ && scanner.expected() >= position_)
    throw_damaged(path, scanner.position(), scanner.expected(), scanner.fault());
  const auto end = end_of_damage(open_->file, scanner.position(), scanner.expected());
  if (take_loss_ && scanner.is_misplaced()) remember_misplaced(end);
  lose({path,
        {scanner.position()},
        {end},
        scanner.expected(),
        behind_wrong_batch_at_end().value_or(scanner.expected()),
        scanner.fault()});
  open_ = open_at(open_->base, end, scanner.expected(), false);
  return true;
}

// A sound batch among others. Whether it stands in its own place as well is seen later.
void BatchStream::remember_misplaced(std::int64_t end) {
  const auto& scanner = open_->scanner;
  const auto& header = scanner.header();
  const LostRange range{open_->file.path(), {scanner.position()}, {end},
                        header.base_offset, header.next_offset(), scanner.fault()};
  if (is_offset_believed() && (!elsewhere_ || elsewhere_->next < range.next)) elsewhere_ = range;
  if (scanner.reaches_too_far() || range.first <= scanner.expected()) return;
  if (!ahead_) ahead_ = range;
  ahead_->end = range.end;
  ahead_->first = std::min(ahead_->first, range.first);
  ahead_->next = std::max(ahead_->next, range.next);
}

// Where nothing but the offset of a batch, which stands outside the checksum, says that the log went so far: not if one flipped
// bit has made it, nor if it is another log's.
bool BatchStream::is_offset_believed() const {
  const auto base = open_->scanner.header().base_offset;
  const auto expected = open_->scanner.expected();
  if (elsewhere_ && base == elsewhere_->next) return true;
  return base - expected <= std::numeric_limits<std::int32_t>::max() && !format::is_one_bit_off(base, expected);
}

// If what the open scanner stands at is a damaged batch that ends with the file, by its header or its checksum, or a sound one at
// a place where its offset cannot be: the offset behind it. What another host writes is seen in any order.
std::optional<Offset> BatchStream::behind_wrong_batch_at_end() const {
  BatchScanner& scanner = open_->scanner;
  std::array<char, format::batch_header_size> bytes;
  const auto got = open_->file.read_at(bytes, scanner.position());
  const auto header = format::read_whole_header(std::span<const char>(bytes).first(got));
  // A flipped bit in the offset must not cover what follows.
  const bool is_last = !has_successor(open_->base);
  const auto largest = scanner.expected() + (is_last && strict_ ? std::numeric_limits<std::int32_t>::max() : 0);
  const bool is_whole = header && format::header_fault(*header) == nullptr && header->base_offset <= largest &&
                        (header->size() == open_->file.size() - scanner.position() ||
                         (header->base_offset < scanner.expected() && scanner.is_misplaced()));
  if (directory_.on_network()) return std::nullopt;
  if (is_last && !scanner.is_misplaced()) {
    if (const auto next = next_behind_last(open_->file, scanner.position(), scanner.expected())) return next;
  }
  if (!is_whole) return std::nullopt;
  if (header->base_offset < scanner.expected()) return scanner.expected();
  return std::min(header->next_offset(), limit_of(open_->base));  // what it says is not to be trusted
}

void BatchStream::lose(const LostRange& range) {
  if (loss_ && loss_->path == range.path && loss_->end == range.position) {
    loss_->end = range.end;
    return;
  }
  if (loss_) tell_loss(range.first);
  loss_ = range;
}

// What is lost reaches to `next`. It does not matter if all of it lies before what the caller wants.
void BatchStream::tell_loss(Offset next) {
  auto range = *std::exchange(loss_, std::nullopt);
  range.next = std::max(range.next, next);
  if (range.next < position_ || (range.next == position_ && range.first < range.next)) return;
  if (!take_loss_) {
    seek(position_);
    throw_damaged(range.path, range.position.value, range.first, range.reason);
  }
  position_ = std::max(position_, next);
  const bool is_told_later =
      ahead_ && ahead_->path == range.path && ahead_->position <= range.position && range.end <= ahead_->end;
  if (is_told_later && range.first == range.next) return;
  if (is_told_later) ahead_.reset();  // it was one of these, with a wrong offset
  take_loss_(range);
}

// Behind a segment that ends at `from` the log goes on with another one. The first may also reach too far: it was written, or
// damaged, after it had been opened.
void BatchStream::look_at_hole(Offset from, Offset below) {
  if (loss_ || from == below) return;
  if (ahead_ && from < below) {
    tell_ahead(from, below, below);
    from = std::max(from, std::min(position_, below));
    if (from == below) return;
  }
  if (from > below) {
    if (below > open_->base) missing(below, from, below);
    return;
  }
  const auto start = directory_.log_start();
  require_from(start);
  from = std::max({from, start, position_});
  if (from >= below || is_told_as_lost(from, below)) return;
  // Whoever puts a broker's segments into a new topic may leave its first, empty one beside them.
  const bool nothing_before = from == start && open_->scanner.next_position() == 0;
  if (directory_.index_without_segment(from, below) ||
      (directory_.is_dense() && (!nothing_before || directory_.were_here(from, below)))) {
    missing(from, below, below);
  } else if (notice_) {
    notice_(directory_.path() + ": " + offsets_are(from, below - 1) + " not there: " +
            (directory_.is_dense() ? missing_start : "compaction emptied that part of the log, or a segment is missing"));
  }
}

// Before the batch that was just read, or the end of the segment. A broker's own segments, put into a topic that is not
// compacted, may have many: one is told of, unless who passes over damage asks what is missing.
void BatchStream::look_at_hole_inside(Offset from, Offset below) {
  from = std::max(position_, from);
  const bool is_usual = directory_.in_store() && !directory_.is_dense();
  if (from >= below || is_usual || is_told_as_lost(from, below) || !notice_ || told_of_hole_) return;
  told_of_hole_ = !take_loss_;
  notice_(place() + ": " + offsets_are(from, below - 1) + " not there" + (take_loss_ ? "" : ", and perhaps others") +
          ": a compaction leaves such holes, or a batch is missing");
}

bool BatchStream::is_told_as_lost(Offset from, Offset below) const {
  if (!directory_.are_known_lost(from, below)) return false;
  if (notice_) {
    notice_(directory_.path() + ": " + offsets_are(from, below - 1) + " lost, as its file lost-offsets says");
  }
  return true;
}

// The log begins behind position().
void BatchStream::look_at_missing_start() {
  const auto start = directory_.log_start();  // it is moved before segments go
  const auto first = bases_.front();
  require_from(start);
  if (is_told_as_lost(position_, first)) return;
  if (directory_.were_here(position_, first) || directory_.index_without_segment(start, first)) {
    missing(position_, first, first);
  } else if (notice_) {
    notice_(directory_.path() + ": " + offsets_are(position_, first - 1) + " not there: the first segment begins with " +
            number(first.value) + (directory_.is_dense() ? std::string("; ") + missing_start : ""));
  }
}

void BatchStream::missing(Offset from, Offset below, Offset segment) {
  const bool overlap = from == segment;
  missing(directory_.segment(segment).log(), 0, from, below,
          overlap ? "the segment before this one reaches into it" : "no segment holds the offsets before it");
}

void BatchStream::missing(const std::string& path, std::int64_t position, Offset from, Offset below, const char* reason) {
  if (!take_loss_) {
    const auto what = path + " position " + number(position) + " (" + offsets_text(from, below - 1) + "): " + reason;
    seek(position_);  // the path may be that of the open segment
    throw Error(ErrorCode::damaged, what);
  }
  take_loss_({path, {position}, {position}, from, below, reason});
  position_ = std::max(position_, below);
}

// Something that is no batch was read. True: it is one by now, or was cut off. False: the log ends here.
bool BatchStream::reread() {
  const auto base = open_->base;
  const auto position = open_->scanner.position();
  const auto expected = open_->scanner.expected();
  bases();
  const auto again = [&] {
    open_ = open_at(base, position, expected, false);
    // A client of a network file system may go on showing a page as it was before another host appended to it, if it took the
    // page and the attributes of the file at different moments.
    if (directory_.on_network()) open_->file.drop_cached();
    const auto now = open_->scanner.next();
    if (now == Scan::batch) open_ = open_at(base, position, expected, false);
    return now == Scan::batch || now == Scan::end;
  };
  if (again()) return true;
  while (open_->scanner.reaches_too_far() && open_->scanner.header().base_offset == open_->scanner.expected() &&
         (leave_out_if_empty(limit_of(base)) || leave_out_no_file(limit_of(base)))) {
    if (again()) return true;
  }
  const bool is_closed = has_successor(base);
  const bool is_known =
      !is_closed && torn_ && torn_->base == base && torn_->position == position && torn_->size == open_->file.size();
  if (is_known || behind_restart(base, position)) {
    open_->scanner.refresh();  // what a writer puts in its place is not to be read together with what was there
    return false;
  }
  if (is_closed) {
    bases_listed_anew();  // segments that were merged, or had expired, do not count
    return again() || damaged();
  }
  if ((strict_ && (behind_wrong_batch_at_end() || end_of_chain_behind(open_->file, position, {}))) ||
      open_->scanner.is_misplaced() || directory_.is_as_synced(base, open_->file.size()) || is_in_stable_part(base, position) ||
      end_of_chain_behind(open_->file, position, expected)) {
    // A live writer may have finished the batch and appended others meanwhile.
    return again() || damaged();
  }
  torn_ = Torn{base, position, open_->file.size()};
  open_->scanner.refresh();
  return false;
}

std::string BatchStream::place() const {
  return open_->file.path() + " position " + number(open_->scanner.position()) + " (offset " +
         number(header().base_offset.value) + ")";
}

Offset BatchStream::end() {
  const auto start = directory_.log_start();
  if (const auto point = suspect()) return std::max(start, end_behind_restart(*point));
  const auto& all = bases();
  auto behind = all.end();
  while (behind != all.begin() && directory_.is_no_file(*(behind - 1))) --behind;
  listed_end_ = start;
  if (behind != all.end()) listed_end_ = std::max(start, directory_.stable_end().value_or(start));  // next() tells of it
  if (behind == all.begin()) return listed_end_;
  auto segment = open(*(behind - 1), false, Offset{std::numeric_limits<std::int64_t>::max()});
  listed_end_ = std::max(listed_end_, end_of_segment(*segment, segment->scanner));
  return listed_end_;
}

// Behind the last whole batch, or behind what follows damage: the records there are not lost.
Offset BatchStream::end_of_segment(const OpenSegment& segment, BatchScanner& scanner) {
  scanner.hold_no_large_batches();
  for (;;) {
    const auto found = scanner.next();
    if (found == Scan::batch) continue;
    if (found == Scan::end) return scanner.expected();
    return end_of_chain_behind(segment.file, scanner.position(), scanner.expected()).value_or(scanner.expected());
  }
}

Offset BatchStream::end_behind_restart(const format::RecoveryPoint& point) const {
  const auto bases = directory_.segment_bases();
  auto at = std::upper_bound(bases.begin(), bases.end(), point.segment);
  if (at != bases.begin()) --at;
  Offset end = point.offset;
  for (bool first = true; at != bases.end(); ++at, first = false) {
    if ((!first && *at != end) || directory_.is_no_file(*at)) break;
    auto segment = open_at(*at, 0, *at, false);
    if (*at < point.segment) {  // all of it was on stable storage, and the segment of the recovery point is gone
      end = end_of_segment(*segment, segment->scanner);
      continue;
    }
    const bool known = *at == point.segment && point.position.value > 0 && segment->file.size() >= point.position.value;
    if (known) segment = open_at(*at, point.position.value, point.offset, false);
    segment->scanner.hold_no_large_batches();
    auto found = segment->scanner.next();
    while (found == Scan::batch) found = segment->scanner.next();
    end = segment->scanner.expected();
    if (found != Scan::end) break;
  }
  return end;
}

// The entry is believed if a batch that ends with its offset has its timestamp: no batch before that one has a later one.
std::optional<format::BatchHeader> BatchStream::batch_of(const format::TimeIndexEntry& entry, Offset base) const {
  try {
    const auto segment = open(base, false, entry.offset);
    segment->scanner.hold_no_large_batches();
    while (segment->scanner.next() == Scan::batch) {
      const auto& found = segment->scanner.header();
      if (found.last_offset() < entry.offset) continue;
      if (found.last_offset() != entry.offset || found.max_timestamp != entry.timestamp) return std::nullopt;
      return found;
    }
  } catch (const Error& error) {
    if (!is_stale(error) && !directory_.is_no_file(base)) throw;
  }
  return std::nullopt;
}

// The batch that the last time index entry of a segment names, and those behind it up to the next segment, each file opened once:
// no batch before them has a later timestamp. False: some of that is not as it should be, or `look` says so; nothing is known
// then.
template <class Look>
bool BatchStream::look_behind_last_time(Offset base, Offset next, Look look) const {
  const IndexReader index(directory_.segment(base));
  const auto entry = index.last_time();
  if (!entry) return false;
  try {
    const auto segment = open(base, true, entry->offset, index);
    auto& scanner = segment->scanner;
    for (bool is_found = false;;) {
      const auto expected = scanner.expected();
      const auto found = scanner.next();
      if (found == Scan::end) return is_found && expected == next;
      if (found != Scan::batch) return false;
      const auto& header = scanner.header();
      if (!is_found && header.last_offset() < entry->offset) continue;
      const bool is_right = is_found ? header.base_offset == expected || !directory_.is_dense()
                                     : header.last_offset() == entry->offset && header.max_timestamp == entry->timestamp;
      if (!is_right || !look(header)) return false;
      is_found = true;
    }
  } catch (const Error& error) {
    if (!is_stale(error) && !directory_.is_no_file(base)) throw;
  }
  return false;
}

bool BatchStream::seek_time(Timestamp time, std::optional<Offset> below) {
  const auto start = directory_.log_start();
  const auto bases = below && *below <= listed_end_ ? bases_around(start) : this->bases();
  auto at = std::upper_bound(bases.begin(), bases.end(), start);
  if (at != bases.begin()) --at;
  for (; at != bases.end() && (!below || *at < *below); ++at) {
    const bool is_closed = at + 1 != bases.end();
    if (is_closed && look_behind_last_time(*at, *(at + 1), [&](const format::BatchHeader& header) {
          return header.max_timestamp < time || header.is_control();
        }))
      continue;
    Offset from = std::max(start, *at);
    if (const auto entry = IndexReader(directory_.segment(*at)).time_below(time); entry && entry->offset > from) {
      if (const auto header = batch_of(*entry, *at)) from = header->next_offset();
    }
    const auto matches = [&] { return header().max_timestamp >= time && !header().is_control(); };
    if (scan_segment(from, is_closed ? std::optional(*(at + 1)) : std::nullopt, matches)) return true;
  }
  return false;
}

// Each segment's last time index entry is its largest timestamp so far; only what stands behind that batch has to be looked at.
bool BatchStream::seek_max_time() {
  const auto start = directory_.log_start();
  const auto bases = this->bases();
  std::optional<Offset> best;
  Timestamp largest{std::numeric_limits<std::int64_t>::min()};
  const auto consider = [&](const format::BatchHeader& header) {
    if (header.is_control() || (best && header.max_timestamp <= largest)) return;
    best = std::max(start, header.base_offset);
    largest = header.max_timestamp;
  };
  auto at = std::upper_bound(bases.begin(), bases.end(), start);
  if (at != bases.begin()) --at;
  for (; at != bases.end(); ++at) {
    Offset from = std::max(start, *at);
    bool is_first = true;
    if (at + 1 != bases.end() && look_behind_last_time(*at, *(at + 1), [&](const format::BatchHeader& header) {
          if (std::exchange(is_first, false) && (header.is_control() || header.base_offset < from)) return false;
          consider(header);
          return true;
        }))
      continue;
    const auto entry = IndexReader(directory_.segment(*at)).last_time();
    const auto indexed = entry && entry->offset >= from ? batch_of(*entry, *at) : std::nullopt;
    if (indexed && indexed->base_offset >= from && !indexed->is_control()) {
      consider(*indexed);
      from = indexed->next_offset();
    }
    scan_segment(from, at + 1 != bases.end() ? std::optional(*(at + 1)) : std::nullopt, [&] {
      consider(header());
      return false;
    });
  }
  if (best) seek(*best);
  return best.has_value();
}

// Looks at the batches from `from` to the end of the segment, that is below `below`, until one is right, and seeks to it.
template <class Predicate>
bool BatchStream::scan_segment(Offset from, std::optional<Offset> below, Predicate is_right) {
  seek(from);
  while (next()) {
    if (below && header().base_offset >= *below) return false;
    if (is_right()) {
      seek(std::max(from, header().base_offset));
      return true;
    }
    advance(header().next_offset());
  }
  return false;
}

}  // namespace partlog::log

#include "log/partition_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <random>
#include <thread>
#include <utility>

#include "format/file_names.h"
#include "log/batch_scanner.h"
#include "log/torn_tail.h"
#include "os/clock.h"
#include "os/directory.h"

namespace partlog::log {

namespace {

constexpr std::size_t scan_window_bytes = 64 << 10;
constexpr std::size_t most_known_segments = 4096;
constexpr int most_steps_by_name = 16;
constexpr std::int64_t preallocation_step = 64 << 20;
constexpr std::int64_t preallocate_after = 4 << 20;  // appended bytes: a short-lived writer does not reserve space

std::string number(std::int64_t n) { return std::to_string(n); }

bool is_no_space(const Error& error) {
  return error.system_error() == ENOSPC || error.system_error() == EDQUOT || error.system_error() == EFBIG;
}

// What NFS says to one whose lease has lapsed.
bool may_be_of_lost_lock(const Error& error) {
  constexpr std::array signs = {EIO, EBADF, ENOENT, ESTALE};
  return std::ranges::find(signs, error.system_error()) != signs.end();
}

bool is_same(std::span<const char> stored, const format::BatchBytes& batch) {
  if (stored.size() != batch.size() || !std::ranges::equal(stored.first(batch.front.size()), batch.front)) return false;
  stored = stored.subspan(batch.front.size());
  for (const auto& piece : batch.rest) {
    if (!std::ranges::equal(stored.first(piece.size()), piece)) return false;
    stored = stored.subspan(piece.size());
  }
  return true;
}

void sleep_10_to_50_ms() {
  thread_local std::minstd_rand random(std::random_device{}());
  std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 41));
}

}  // namespace

PartitionLog::PartitionLog(PartitionDirectory directory, PartitionLogOptions options)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      lock_(os::FileLock::open(format::append_lock_path(directory_.path()))) {
  options_.lock_wait.poll = directory_.on_network();
  if (const auto status = os::status_of(directory_.path())) directory_id_ = status->id;
}

PartitionLog::~PartitionLog() { give_back_space(); }

PartitionLog::Appended PartitionLog::append(const format::BatchBytes& batch) {
  auto guard = lock_.lock(options_.lock_wait);
  std::optional<Place> place;
  try {
    return append_locked(batch, guard, place);
  } catch (const Error& error) {
    tail_.reset();
    report_failed_append(error, place, batch, guard);
  } catch (...) {
    tail_.reset();
    throw;
  }
}

PartitionLog::Appended PartitionLog::append_locked(const format::BatchBytes& batch, os::FileLock::Guard& guard,
                                                   std::optional<Place>& place) {
  check_appendable();
  refresh_tail();
  place = Place{tail_->base, tail_->end, tail_->next, tail_->end == 0};
  if (options_.log_append_time) format::set_log_append_time(batch, os::clock().now());
  const auto header = format::read_batch_header(batch.front);
  if (tail_->next.value > std::numeric_limits<std::int64_t>::max() - header.last_offset_delta - 1) {
    throw Error(ErrorCode::refused, options_.name + ": the batch would reach beyond the last possible offset");
  }
  const bool rolling = must_roll(header);
  if (rolling) {
    roll(*place, guard);
    place = Place{tail_->base, tail_->end, tail_->next, true};
  }
  const auto first = tail_->next;
  format::set_offset_and_epoch(batch, first, epoch_);
  write(batch, format::read_batch_header(batch.front), guard);
  const auto end = tail_->end;
  if (directory_.on_network()) finish_network_append(guard, format::read_batch_header(batch.front), place->position);
  return {first, rolling, end};
}

// A system error of a network file system may be no more than the sign that this host was paused, or cut off, for longer than its
// lease: the lock is another's by now, or was meanwhile.
void PartitionLog::report_failed_append(const Error& error, const std::optional<Place>& place, const format::BatchBytes& batch,
                                        os::FileLock::Guard& guard) const {
  const bool lost = error.code() == ErrorCode::fenced;
  if (!lost && (!directory_.on_network() || error.system_error() == 0 || is_no_space(error))) throw Error(error);
  if (lost || was_overtaken(guard, place, batch)) {
    if (place) withdraw_segment(*place, guard);
    throw Error(ErrorCode::fenced, options_.name + ": lost " + lock_.path() +
                                       ", and another process or host appended meanwhile (was this host paused or cut off?); "
                                       "send again what was not stored: " +
                                       error.what());
  }
  if (!may_be_of_lost_lock(error)) throw Error(error);
  throw Error(error.code(), std::string(error.what()) + "; has this host lost its locks, paused or cut off for too long?",
              error.system_error());
}

bool PartitionLog::was_overtaken(const os::FileLock::Guard& guard, const std::optional<Place>& place,
                                 const format::BatchBytes& batch) const {
  if (!directory_.on_network()) return false;
  if (!guard.still_held()) return true;
  try {
    return place && went_on_behind(*place, batch);
  } catch (const Error&) {
    return false;
  }
}

// Whether another batch than this one stands at its place, or a segment was begun there.
bool PartitionLog::went_on_behind(const Place& place, const format::BatchBytes& batch) const {
  os::File::open(directory_.path(), os::File::Mode::read);
  if (!place.begun && is_there(place.next)) return true;
  return is_followed(place, batch);
}

// Whether others have appended to that segment: a batch that is not this one, or anything behind it.
bool PartitionLog::is_followed(const Place& place, const format::BatchBytes& batch) const {
  const auto file = directory_.segment(place.base).open_log(os::File::Mode::read);
  BatchScanner scanner(file, place.position, place.next, scan_window_bytes);
  if (scanner.next() != Scan::batch) return false;
  return !is_same(scanner.batch(), batch) || scanner.next() == Scan::batch;
}

// A roll may have begun a segment although others had gone on in the one before it: it is empty, and begins below the end of the
// log. Where it cannot be removed now, the next writer that opens the partition does.
void PartitionLog::withdraw_segment(const Place& place, os::FileLock::Guard& guard) const noexcept {
  try {
    guard.unlock();
    const auto again = lock_.lock(options_.lock_wait);
    os::File::open(directory_.path(), os::File::Mode::read);
    const auto begun = os::File::open_if_exists(directory_.segment(place.next).log(), os::File::Mode::read);
    if (place.base != place.next && begun && begun->size() == 0 && is_followed(place, {})) remove_empty_segment(place.next);
  } catch (const Error&) {
  }
}

void PartitionLog::remove_empty_segment(Offset base) const {
  const auto files = directory_.segment(base);
  for (const auto& path : {files.log(), files.index(), files.time_index()}) os::remove_file(path);
}

// Nobody may change a partition that was deleted or made anew under the same name.
void PartitionLog::require_in_place() const {
  const auto status = os::status_of(directory_.path());
  if (!status || status->id != directory_id_) {
    throw Error(ErrorCode::not_found, options_.name + ": the topic was deleted while it was being written to");
  }
}

// Nor append behind a failed sync.
void PartitionLog::check_appendable() const {
  require_in_place();
  if (directory_.sync_failed()) {
    throw Error(ErrorCode::refused, options_.name +
                                        ": an earlier sync failed, so what the device holds is not known; appends are refused "
                                        "as long as this file is there: " +
                                        format::sync_failed_path(directory_.path()));
  }
}

void PartitionLog::refresh_tail() {
  if (!recovered_) {
    if (const auto point = directory_.suspect_from()) recover_after_restart(*point);
    epoch_ = directory_.leader_epoch();
    recovered_ = true;
  }
  if (directory_.on_network()) {
    open_tail_on_network();
  } else {
    tail_ ? refresh_known_tail() : open_tail();
  }
}

void PartitionLog::refresh_known_tail() {
  if (!tail_is_current()) {
    const auto now = tail_->file.is_open() ? std::optional(tail_->file.status()) : std::nullopt;
    const auto at_path = os::status_of(tail_->file.path());
    if (!now || !at_path || at_path->id != tail_->id || now->size < tail_->end) {
      open_tail();
      return;
    }
    read_on(*tail_, tail_->end, tail_->next, Behind::writer);
    go_to_newest_segment();
    tell_of_cut();
  }
}

bool PartitionLog::tail_is_current() const {
  const auto status = os::status_of(tail_->file.path());
  return status && status->id == tail_->id && status->size == tail_->end && !os::status_of(directory_.segment(tail_->next).log());
}

// A cached "no such file" and what is cached of another host's changes are dropped by opening the directory, then the segment,
// and the indexes too, under the lock; so no file stays open from one append to the next: only the segment's name is kept.
void PartitionLog::open_tail_on_network() {
  os::File::open(directory_.path(), os::File::Mode::read);
  if (!last_base_ || !os::File::open_if_exists(directory_.segment(*last_base_).log(), os::File::Mode::read)) {
    open_tail();
    return;
  }
  tail_ = open_segment(*last_base_);
  go_to_newest_segment();
  tell_of_cut();
}

void PartitionLog::open_tail() {
  tail_.reset();
  const auto bases = directory_.segment_bases();
  const auto start = directory_.log_start();
  const auto base = bases.empty() ? start : bases.back();
  if (bases.empty()) os::File::open(directory_.segment(base).log(), os::File::Mode::create);
  move_log_start(bases, start);
  last_bases_.assign(bases.end() - static_cast<std::ptrdiff_t>(std::min(bases.size(), most_known_segments)), bases.end());
  go_to(base);
  if (directory_.on_network() && tail_->end == 0 && bases.size() > 1) leave_overtaken_segment(bases[bases.size() - 2]);
  leave_strays(bases);
  tail_->index.trim();
  if (tail_->next < start) {
    if (directory_.starts_behind(tail_->next)) directory_.throw_starts_behind(tail_->next);
    close_tail();
    os::File::open(directory_.segment(start).log(), os::File::Mode::create_new);
    go_to(start);
  }
  tell_of_cut();
}

// A broker's segments were put into a new topic: the log starts with them. It would not be known any more once the recovery point
// has passed them.
void PartitionLog::move_log_start(std::span<const Offset> bases, Offset start) const {
  if (bases.size() > 1 && directory_.is_empty(bases.front())) bases = bases.subspan(1);
  if (bases.empty() || bases.front() <= start || directory_.are_known_lost(start, bases.front())) return;
  if (!directory_.were_here(start, bases.front())) directory_.move_log_start(bases.front());
}

// Somebody may have shortened the log by more than a writer that died left behind its end. The offsets of what is gone are given
// again, so the groups that have passed them must learn of it: by a line in `cuts`, written before anything is appended.
void PartitionLog::tell_of_cut() {
  auto text = std::exchange(cut_, {});
  if (const auto gone = this->gone(tail_->next); !gone.empty()) {
    if (directory_.on_network()) require_newest_tail();
    directory_.add_cut(tail_->next);
    directory_.move_recovery_point_back(tail_->next, tail_->base, tail_->end);
    text = gone + (text.empty() ? "" : "; ") + text;
  }
  if (!text.empty()) notice(options_.name + ": " + text);
}

// What seems to be gone may be what another host has appended since the tail was read, if the lock was lost.
void PartitionLog::require_newest_tail() {
  if (went_on_behind({tail_->base, tail_->end, tail_->next, tail_->end == 0}, {})) {
    throw Error(ErrorCode::fenced, "nothing was appended");
  }
  lock_segment(tail_->file);  // again: its file was opened and closed
}

// What was on stable storage once and is missing at the end, in words.
std::string PartitionLog::gone(Offset next) const {
  const auto point = directory_.recovery_point();
  if (!point || point->offset <= next) return {};
  const auto count = point->offset - next;
  const auto first = number(next.value);
  const auto what = count == 1
                        ? "1 acknowledged offset, " + first + ", is"
                        : number(count) + " acknowledged offsets, " + first + " to " + number(point->offset.value - 1) + ", are";
  return what + " gone, and given again: the log ends at " + number(next.value) + ", below its recovery point " +
         number(point->offset.value);
}

void PartitionLog::go_to(Offset base) {
  tail_.reset();  // and its lock
  tail_ = open_segment(base);
  if (last_bases_.empty() || last_bases_.back() < base) last_bases_.push_back(base);
}

// The newest segment is empty: unless the one before it ends there, it was begun by a host that had lost the lock and was then
// lost itself.
void PartitionLog::leave_overtaken_segment(Offset before) {
  auto tail = open_segment(before);
  if (tail.next <= tail_->base) return;
  const auto base = tail_->base;
  tail_ = std::move(tail);
  last_bases_.pop_back();
  remove_empty_segment(base);
}

// The newest segment is empty, and no other one ends there: a stranger's file, which is kept. So are others in a row.
void PartitionLog::leave_strays(std::span<const Offset> bases) {
  if (bases.size() < 2 || tail_->end > 0 || tail_->base != bases.back()) return;
  auto count = bases.size() - 1;
  while (count > 1 && directory_.is_empty(bases[count - 1])) --count;
  const auto end = end_of(bases[count - 1]);
  if (!end) return;
  const auto empty = bases.subspan(count);
  const auto kept = directory_.in_log(empty, *end);
  if (kept.size() == empty.size()) return;
  tail_.reset();
  const auto skipped = static_cast<std::size_t>(kept.data() - empty.data());
  constexpr const char* why = "is empty and does not follow on";
  set_segments_aside(empty.first(skipped), why);
  set_segments_aside(empty.subspan(skipped + kept.size()), why);
  last_bases_.assign({bases[count - 1]});
  last_bases_.insert(last_bases_.end(), kept.begin(), kept.end());
  go_to(kept.empty() ? bases[count - 1] : kept.back());
}

// Others may have rolled since this process looked last, several times. Each segment begins where the one before it ends, unless
// compaction has emptied that end. What cannot be followed by name is found by listing: one that was closed meanwhile is nothing
// to this writer, whatever became of it.
void PartitionLog::go_to_newest_segment() {
  if (tail_->closed) return open_tail();
  if (tail_->end == 0 || !is_there(tail_->next)) return tail_->index.trim();
  auto newest = tail_->next;
  for (int step = 0; directory_.is_dense() && step < most_steps_by_name; ++step) {
    const auto end = end_of(newest);
    if (!end) break;
    if (*end == newest || !is_there(*end)) {
      go_to(newest);
      return tail_->index.trim();
    }
    last_bases_.push_back(newest);
    newest = *end;
  }
  open_tail();
}

bool PartitionLog::is_there(Offset base) const {
  return os::File::open_if_exists(directory_.segment(base).log(), os::File::Mode::read).has_value();
}

// Nothing is written, since the segment may have been closed. nullopt where its end is not whole, or not easily found.
std::optional<Offset> PartitionLog::end_of(Offset base) const {
  const auto files = directory_.segment(base);
  const auto file = files.open_log(os::File::Mode::read);
  const auto entry = IndexReader(files).last();
  BatchScanner scanner(file, entry ? entry->position.value : 0, base, scan_window_bytes);
  scanner.hold_no_large_batches();
  if (const auto point = directory_.point_in(base)) scanner.set_known(point->position.value, point->offset, !entry);
  auto found = scanner.next();
  if (entry && (found != Scan::batch || scanner.header().last_offset() != entry->offset)) return std::nullopt;
  while (found == Scan::batch) found = scanner.next();
  return found == Scan::end ? std::optional(scanner.expected()) : std::nullopt;
}

PartitionLog::Tail PartitionLog::open_segment(Offset base) {
  const auto files = directory_.segment(base);
  auto file = files.open_log(os::File::Mode::write);
  if (directory_.on_network()) lock_segment(file);  // before the indexes are opened
  Tail tail{base, std::move(file), {}, IndexWriter(files, options_.index_interval_bytes), 0, base, {}, 0};
  const auto status = tail.file.status();
  tail.id = status.id;
  if (status.size == 0) {
    tail.index.reset();
    return tail;
  }
  const auto resume = tail.index.resume(tail.file);
  if (resume.position > 0) {
    char header[format::batch_header_size] = {};
    tail.file.read_at(header, 0);  // less where the only message of a format older than v2 stands
    tail.first_timestamp = format::read_batch_header(header).max_timestamp;
  }
  read_on(tail, resume.position, resume.expected, Behind::writer);
  return tail;
}

// Reads the batches from `position` to the end and brings the indexes up to date with them. What follows the last whole batch is
// cut if it is a torn tail; true if something was cut.
bool PartitionLog::read_on(Tail& tail, std::int64_t position, Offset expected, Behind behind) {
  BatchScanner scanner(tail.file, position, expected, scan_window_bytes);
  scanner.hold_no_large_batches();
  const bool is_new = tail.end == 0;
  if (const auto point = is_new ? directory_.point_in(tail.base) : std::nullopt)
    scanner.set_known(point->position.value, point->offset, true);
  auto found = scanner.next();
  for (; found == Scan::batch; found = scanner.next()) {
    if (!tail.first_timestamp) tail.first_timestamp = scanner.header().max_timestamp;
    tail.index.add(scanner.header(), scanner.position());
  }
  tail.end = scanner.position();
  tail.next = scanner.expected();
  if (found == Scan::end) return false;
  cut(tail, scanner, found == Scan::partial, behind);
  return true;
}

// Only the newest segment has a tail; in one that others closed what is invalid is damage, and left to readers to report.
void PartitionLog::cut(Tail& tail, BatchScanner& scanner, bool prefix_of_one_batch, Behind behind) {
  if (behind == Behind::writer && directory_.segment_bases().back() > tail.base) {
    tail.closed = true;
    return;
  }
  const auto place = tail.file.path() + " position " + number(tail.end) + " (offset " + number(tail.next.value) + ")";
  if (behind == Behind::writer && scanner.is_misplaced()) {
    throw Error(ErrorCode::damaged,
                place + ": " + scanner.fault() + ", but the batch is whole: the file is damaged, nothing was cut");
  }
  if (behind == Behind::writer && end_of_chain_behind(tail.file, tail.end, tail.next)) {
    throw Error(ErrorCode::damaged,
                place + ": " + scanner.fault() + ", but whole batches follow: the file is damaged, nothing was cut");
  }
  const auto size = tail.file.size();
  if (behind == Behind::writer && directory_.is_as_synced(tail.base, size)) {
    throw Error(ErrorCode::damaged,
                place + ": " + scanner.fault() + ", but it was on stable storage: the file is damaged, nothing was cut");
  }
  if (!prefix_of_one_batch) keep_cut_bytes(tail.file, tail.base, tail.end);
  tail.file.truncate(tail.end);
  tail.reserved = 0;
  cut_ = "cut " + number(size - tail.end) + " bytes left by " +
         (behind == Behind::writer ? "a writer that died" : "a restart of the host") + ": " + place;
}

// What is more than the prefix of one batch might be of use to somebody; zeros are not.
void PartitionLog::keep_cut_bytes(const os::File& file, Offset base, std::int64_t position) {
  constexpr std::size_t step = 256 << 10;
  Window window(file, step, false);
  const auto is_zero = [](char c) { return c == 0; };
  auto at = position;
  auto bytes = window.view(at, step);
  for (; !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), is_zero); bytes = window.view(at, step))
    at = file.end_of_hole(at + static_cast<std::int64_t>(bytes.size()));
  if (bytes.empty()) return;
  auto copy = os::File::open(directory_.path() + '/' + format::cut_file_name(base, {position}), os::File::Mode::create);
  const auto end = copy.size();  // of what an earlier cut at this place left
  for (at = position, bytes = window.view(at, step); !bytes.empty(); bytes = window.view(at, step)) {
    copy.write_at(bytes, end + at - position);
    at = file.end_of_hole(at + static_cast<std::int64_t>(bytes.size()));
  }
  copy.sync_data();
}

// Behind the recovery point a power failure keeps pages, files and names in any order. The log ends at the first invalid batch,
// or where the next segment does not follow on; what lies behind that is set aside.
void PartitionLog::recover_after_restart(const format::RecoveryPoint& point) {
  const auto bases = directory_.segment_bases();
  auto at = std::upper_bound(bases.begin(), bases.end(), point.segment);
  if (at != bases.begin()) --at;
  Offset next = std::max(point.offset, directory_.log_start());
  Offset segment = point.segment;
  std::int64_t end = 0;
  for (bool first = true; at != bases.end(); ++at, first = false) {
    if (!first && *at != next) break;
    const auto files = directory_.segment(*at);
    Tail tail{*at, files.open_log(os::File::Mode::write), {}, IndexWriter(files, options_.index_interval_bytes), 0, *at, {}, 0};
    if (*at == point.segment) require_stable_part(tail.file, point);
    tail.index.reset();
    // What the last segment that is there holds was on stable storage, if the one of the recovery point is gone.
    const bool was_cut = read_on(tail, 0, *at, *at < point.segment ? Behind::writer : Behind::restart);
    const bool last = was_cut || at + 1 == bases.end() || *(at + 1) != tail.next;
    if (!last) tail.index.close_segment();
    tail.file.sync_data();
    tail.index.sync();
    next = tail.next;
    segment = *at;
    end = tail.end;
    if (last) {
      ++at;
      break;
    }
  }
  auto text = std::exchange(cut_, {});
  if (const auto gone = this->gone(next); !gone.empty()) text = gone + (text.empty() ? "" : "; ") + text;
  if (!text.empty()) notice(options_.name + ": " + text);
  set_segments_aside({at, bases.end()}, "does not follow on after a restart of the host");
  os::sync_directory(directory_.path());
  directory_.add_cut_of_restart(next);
  directory_.move_recovery_point(next, segment, end, true);
}

// Up to this point the file was on the device before the restart: what is invalid or missing there is damage.
void PartitionLog::require_stable_part(const os::File& file, const format::RecoveryPoint& point) const {
  BatchScanner scanner(file, 0, point.segment, scan_window_bytes);
  scanner.hold_no_large_batches();
  scanner.set_known(point.position.value, point.offset, true);
  while (scanner.next_position() < point.position.value) {
    const auto found = scanner.next();
    if (found == Scan::batch) continue;
    const char* fault = found == Scan::end ? "the file ends here" : scanner.fault();
    throw Error(ErrorCode::damaged, file.path() + " position " + number(scanner.position()) + " (offset " +
                                        number(scanner.expected().value) + "): " + fault +
                                        ", though more was on stable storage before the restart; nothing was cut");
  }
}

// One line for each, but for many empty ones in a row.
void PartitionLog::set_segments_aside(std::span<const Offset> bases, const char* why) {
  for (std::size_t i = 0, told = 0; i < bases.size(); ++i) {
    const auto base = bases[i];
    const auto files = directory_.segment(base);
    const auto aside = directory_.path() + '/' + format::cut_file_name(base, {0});
    if (i == told) {
      ++told;
      while (told < bases.size() && directory_.is_empty(bases[told - 1]) && directory_.is_empty(bases[told])) ++told;
      const auto others = told - i == 1 ? "" : ", and likewise the next " + std::to_string(told - i - 1);
      notice(options_.name + ": segment " + files.log() + " " + why + "; kept as " + aside + others);
    }
    if (os::status_of(aside)) {  // from an earlier restart
      keep_cut_bytes(files.open_log(os::File::Mode::read), base, 0);
      os::remove_file(files.log());
    } else {
      os::rename_path(files.log(), aside);
    }
    os::remove_file(files.index());
    os::remove_file(files.time_index());
  }
}

// As a broker does (LogSegment.shouldRoll): by size, by the age of the first batch, and by what 32 bits hold.
bool PartitionLog::must_roll(const format::BatchHeader& header) const {
  if (tail_->end == 0) return false;
  constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();
  if (tail_->end > std::min(options_.segment_bytes, int32_max) - header.size()) return true;
  if (tail_->next + header.last_offset_delta - tail_->base > int32_max) return true;
  if (tail_->first_timestamp && *tail_->first_timestamp >= Timestamp{0}) {
    return header.max_timestamp - *tail_->first_timestamp > options_.segment_ms;
  }
  return false;
}

// Before a segment is closed everything before it is synced, so that a start after a power failure checks few segments.
void PartitionLog::roll(Place& end, const os::FileLock::Guard& guard) {
  const auto closing = end.base;
  const auto point = directory_.recovery_point();
  const auto from = point ? point->segment : Offset{0};
  if (from < closing) {
    try {
      sync_segments(from, closing);
    } catch (const Error& error) {
      report_failed_sync(error, from, closing);
    }
    directory_.move_recovery_point(closing, closing, 0, false);
  }
  close_tail();
  if (was_overtaken(guard, end, {})) throw Error(ErrorCode::fenced, "no segment was begun");
  os::File::open(directory_.segment(end.next).log(), os::File::Mode::create_new);
  end.begun = true;
  go_to(end.next);
  // From here on the lock on the new segment guards it.
  if (directory_.on_network() && (!guard.still_held() || is_followed(end, {}))) {
    throw Error(ErrorCode::fenced, "nothing was appended");
  }
}

void PartitionLog::close_tail() {
  tail_->index.close_segment();
  if (!directory_.on_network()) tail_->file.truncate(tail_->end);  // gives back what was preallocated behind the end
  if (directory_.on_network()) tail_->file.sync_data();
}

void PartitionLog::write(const format::BatchBytes& batch, const format::BatchHeader& header, const os::FileLock::Guard& guard) {
  auto& tail = *tail_;
  preallocate(header.size());
  try {
    tail.file.write_at(batch.front, tail.end);
    auto at = tail.end + static_cast<std::int64_t>(batch.front.size());
    for (const auto& piece : batch.rest) {
      tail.file.write_at(piece, at);
      at += static_cast<std::int64_t>(piece.size());
    }
  } catch (const Error&) {
    take_back(tail.end, guard);
    throw;
  }
  const auto position = tail.end;
  tail.end += header.size();
  tail.next = header.next_offset();
  if (!tail.first_timestamp) tail.first_timestamp = header.max_timestamp;
  if (!unsynced_) unsynced_ = Unsynced{header.base_offset, {}, {}, 0};
  unsynced_->next = tail.next;
  unsynced_->segment = tail.base;
  unsynced_->position = tail.end;
  if (directory_.on_network()) return;  // finish_network_append
  try {
    tail.index.add(header, position);
  } catch (const Error&) {
    // The batch is stored. The index is brought up to date when the segment is opened next, which a tail of no file asks for.
    tail.id = {};
  }
}

void PartitionLog::preallocate(std::int64_t size) {
  auto& tail = *tail_;
  appended_bytes_ += size;
  if (directory_.on_network() || appended_bytes_ < preallocate_after || tail.end + size <= tail.reserved) return;
  const auto step = std::max(size, std::min(preallocation_step, options_.segment_bytes - tail.end));
  tail.reserved = tail.file.preallocate(tail.end, step) ? tail.end + step : std::numeric_limits<std::int64_t>::max();
}

// Under the lock, to the size that the file has at that moment: others may have appended meanwhile.
void PartitionLog::give_back_space() noexcept {
  if (!tail_ || tail_->reserved == 0 || directory_.on_network()) return;
  try {
    os::LockWait briefly;
    briefly.timeout = std::chrono::milliseconds(1000);
    const auto guard = lock_.lock(briefly);
    tail_->file.truncate(tail_->file.size());
    tail_->reserved = 0;
  } catch (const std::exception&) {
    // The space comes back with the next roll or writer.
  }
}

void PartitionLog::lock_segment(const os::File& file) const {
  const auto limit = options_.lock_wait.timeout;
  const auto start = os::clock().monotonic_us();
  while (!os::try_lock_data(file.descriptor())) {
    if (options_.lock_wait.stop != nullptr && options_.lock_wait.stop->load())
      throw Error(ErrorCode::interrupted, "interrupted while waiting for " + file.path());
    if (limit && os::clock().monotonic_us() - start > limit->count() * 1000)
      throw Error(ErrorCode::busy, file.path() + ": locked by another host");
    sleep_10_to_50_ms();
  }
}

// What a failed append may have left behind the old end goes. Not where the lock was lost: others' records may stand there by
// now. Where it cannot be taken back, it is the torn tail of a batch, which nobody is shown and the next writer cuts.
void PartitionLog::take_back(std::int64_t end, const os::FileLock::Guard& guard) noexcept {
  try {
    if (!directory_.on_network() || guard.still_held()) tail_->file.truncate(end);
  } catch (const Error&) {
  }
}

// Other hosts see the batch once it has reached the server, which may also be where it turns out that there is no space, or that
// this host was cut off and its locks have gone to others.
void PartitionLog::finish_network_append(os::FileLock::Guard& guard, const format::BatchHeader& header, std::int64_t position) {
  const auto first = header.base_offset;
  try {
    tail_->file.sync_data();
    tail_->index.add(header, position);  // not before it is known that the lock was not lost
    tail_->index.sync();
  } catch (const Error& error) {
    if (is_no_space(error)) {
      take_back(position, guard);
      throw;
    }
    throw Error(ErrorCode::io, options_.name + ": " + offsets_are(first, tail_->next - 1) + " in doubt: " + error.what(),
                error.system_error());
  }
  last_base_ = tail_->base;
  tail_.reset();  // lets go of the lock on the segment
  guard.unlock();
  // Whoever polls gets its turn only if the lock is left alone for a moment.
  sleep_10_to_50_ms();
}

// From the one that holds `from` on.
std::vector<Offset> PartitionLog::segments_from(Offset from) const {
  const bool known = !last_bases_.empty() && last_bases_.front() <= from;
  auto bases = known ? last_bases_ : directory_.segment_bases();
  const auto above = std::upper_bound(bases.begin(), bases.end(), from);
  if (above != bases.begin()) bases.erase(bases.begin(), above - 1);
  return bases;
}

// The segments from the one that holds `from` to the last below `below`, with their names.
void PartitionLog::sync_segments(Offset from, Offset below) {
  last_bases_ = segments_from(from);  // the recovery point does not go back
  for (const auto base : last_bases_) {
    if (base >= below) break;
    const auto files = directory_.segment(base);
    for (const auto& path : {files.log(), files.index(), files.time_index()}) {
      if (auto file = os::File::open_if_exists(path, os::File::Mode::read)) {
        call_sync([&] { file->sync_data(); });
      }
    }
  }
  call_sync([&] { os::sync_directory(directory_.path()); });
}

// Tells a sync that failed, after which nobody knows what the device holds, from other reasons not to get so far.
template <class Call>
void PartitionLog::call_sync(Call call) {
  try {
    call();
  } catch (const Error&) {
    sync_failed_ = true;
    throw;
  }
}

void PartitionLog::sync() {
  if (!unsynced_) return;
  if (!directory_.on_network()) {
    require_in_place();
    try {
      sync_known();
    } catch (const Error& error) {
      require_in_place();
      report_failed_sync(error, unsynced_->first, unsynced_->next);
    }
    move_point_if_unlocked();
  }
  unsynced_.reset();
}

// The kernel reports a failure to write back once: asked again it says that all is well. So neither this process nor another that
// shares the partition trusts a sync after one that failed.
void PartitionLog::sync_known() {
  if (sync_failed_) throw Error(ErrorCode::io, "an earlier sync failed");
  const auto point = directory_.recovery_point();
  const auto from = point ? point->segment : Offset{0};
  if (point && from == unsynced_->segment && tail_ && tail_->base == from) {
    call_sync([&] { tail_->file.sync_data(); });  // its name was synced when the recovery point came here
  } else {
    sync_segments(from, unsynced_->segment + 1);
  }
  if (directory_.sync_failed()) throw Error(ErrorCode::io, "an earlier sync of another process failed");
}

// Moving the point spares work after a power failure, no more: whoever holds the lock now will do so too.
void PartitionLog::move_point_if_unlocked() const {
  try {
    if (const auto guard = lock_.try_lock()) {
      require_in_place();
      directory_.move_recovery_point(unsynced_->next, unsynced_->segment, unsynced_->position, false);
    }
  } catch (const Error&) {
  }
}

void PartitionLog::report_failed_sync(const Error& reason, Offset first, Offset next) const {
  if (sync_failed_) directory_.mark_sync_failed(offsets_text(first, next - 1) + ": " + reason.what());
  throw Error(ErrorCode::io, options_.name + ": sync failed, " + offsets_are(first, next - 1) + " in doubt: " + reason.what(),
              reason.system_error());
}

void PartitionLog::notice(const std::string& text) const {
  if (options_.notice) options_.notice(text);
}

}  // namespace partlog::log

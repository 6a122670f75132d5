#include "inspect/salvage.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <tuple>

#include "base/byte_order.h"
#include "format/batch_header.h"
#include "format/checkpoint.h"
#include "format/file_names.h"
#include "inspect/placement.h"
#include "inspect/run.h"
#include "log/partition_directory.h"
#include "os/directory.h"
#include "os/file.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t piece_size = 1 << 20;
constexpr Offset no_limit{std::numeric_limits<std::int64_t>::max()};

// Of a batch too large to be looked into, a right checksum is enough: it is not to be lost for its size.
bool is_decodable(SegmentFile& file, const InspectOptions& options, bool& is_keyless) {
  const auto& batch = file.batch();
  if (static_cast<std::size_t>(batch.size) > options.largest_batch) return true;
  for (auto records = file.records(); !records.empty(); records = file.records()) {
    if (is_keyless || batch.is_control()) continue;
    is_keyless = std::any_of(records.begin(), records.end(), [](const Record& r) { return r.key.is_null(); });
  }
  return file.records_fault().empty();
}

// Makes runs that stand apart from each other, though their offsets may lie in each other's gaps before: of batches with the same
// offsets one is taken, and rather one that stands where it should be. Reads each of these runs once, and as many at a time as
// have offsets in common.
class Parting {
 public:
  Parting(const Salvage& salvage, const InspectOptions& options) : salvage_(salvage), options_(options) {
    options_.window_bytes = std::min(options_.window_bytes, window);
  }

  // `dropped`: the offsets of what was not taken.
  std::vector<Run> run(LostRanges& dropped) {
    auto runs = salvage_.runs;
    std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return order(a) < order(b); });
    for (std::size_t i = 0; i < runs.size();) {
      auto end = i + 1;
      for (auto stop = runs[i].stop(); end < runs.size() && runs[end].start() < stop; ++end)
        stop = std::max(stop, runs[end].stop());
      if (end == i + 1) {
        parted_.push_back(runs[i]);
      } else {
        part({runs.begin() + static_cast<std::ptrdiff_t>(i), runs.begin() + static_cast<std::ptrdiff_t>(end)}, dropped);
      }
      i = end;
    }
    return std::move(parted_);
  }

 private:
  static constexpr std::size_t window = 64 << 10;

  struct Head {
    Run batch;  // or the whole run, as long as it is not open
    std::unique_ptr<RunCursor> cursor;
  };

  static std::tuple<Offset, bool, std::size_t, std::int64_t> order(const Run& run) {
    return {run.start(), run.is_strange, run.file, run.position};
  }
  static bool is_behind(const Head& a, const Head& b) { return order(a.batch) > order(b.batch); }

  void part(std::vector<Run> runs, LostRanges& dropped) {
    std::vector<Head> heads;  // a heap, the least offset first
    heads.reserve(runs.size());
    for (auto& run : runs) heads.push_back({run, nullptr});
    std::make_heap(heads.begin(), heads.end(), is_behind);
    bool goes_on = false;
    auto next = runs.front().start();
    while (!heads.empty()) {
      std::pop_heap(heads.begin(), heads.end(), is_behind);
      auto head = std::move(heads.back());
      heads.pop_back();
      if (!head.cursor) {
        head.cursor = std::make_unique<RunCursor>(head.batch, salvage_.sources[head.batch.file].path, options_);
      } else {
        const auto& batch = head.batch;
        const bool is_worse =
            batch.is_strange && !heads.empty() && !heads.front().batch.is_strange && heads.front().batch.start() < batch.stop();
        if (batch.start() < next || is_worse) {
          dropped.emplace_back(batch.start(), batch.stop() - 1);
        } else {
          take(batch, goes_on);
          goes_on = true;
          next = batch.stop();
        }
        head.cursor->next();
      }
      if (!head.cursor->is_there()) continue;
      head.batch = head.cursor->batch();
      heads.push_back(std::move(head));
      std::push_heap(heads.begin(), heads.end(), is_behind);
    }
  }

  void take(const Run& batch, bool goes_on) {
    if (goes_on && !batch.is_changed() && !parted_.back().is_changed() && parted_.back().file == batch.file &&
        parted_.back().end == batch.position && parted_.back().is_strange == batch.is_strange) {
      parted_.back().end = batch.end;
      parted_.back().next = batch.next;
    } else {
      parted_.push_back(batch);
    }
  }

  const Salvage& salvage_;
  InspectOptions options_;
  std::vector<Run> parted_;
};

// The epochs of a store's partition by offset; empty where nothing can be said.
std::vector<format::EpochStart> epochs_of(const PartitionContext& context) {
  if (!context.is_ours) return {};
  const auto path = format::leader_epoch_checkpoint_path(context.directory);
  try {
    const auto text = os::read_file(path);
    return text ? format::parse_leader_epochs(*text, path) : std::vector<format::EpochStart>{};
  } catch (const Error&) {
    return {};
  }
}

class Survey {
 public:
  Survey(const PartitionContext& context, const LogState& known, const LostRanges& missing, bool epochs_are_right,
         const CheckOptions& options)
      : options_(options), known_(known), missing_(missing), lost_(context.lost) {
    if (epochs_are_right) epochs_ = epochs_of(context);
    result_.sources = result_.segments = segment_paths(context.directory);
    if (context.is_ours || known.synced || result_.sources.empty()) return;
    const log::PartitionDirectory files(context.directory, context.on_network);
    if (const auto gone = files.missing_end(result_.sources.back().base)) lost_end_ = gone->second + 1;
  }

  Salvage run() {
    for (std::size_t i = 0; i < result_.sources.size(); ++i) {
      if (is_left_by_restart(i)) {
        leave_out(i);
      } else {
        walk(i);
      }
    }
    result_.has_all = has_all();
    place_runs(result_, {known_, epochs_, lost_}, options_.inspect);
    result_.runs = Parting(result_, options_.inspect).run(result_.dropped);
    for (const auto& run : result_.runs) result_.end = std::max(result_.end, run.stop());
    if (known_.synced) result_.end = std::max(result_.end, known_.synced->offset);
    lay_out();
    result_.end = std::max({result_.end, lost_end_, result_.segments.back().base});
    return std::move(result_);
  }

 private:
  // Behind the last batch, if nothing stands between.
  struct Fronts {
    Offset said;   // by itself
    Offset meant;  // where it is put
  };

  struct Seen {
    BatchInfo info;
    bool fits;                                      // nothing around it says that its offset is wrong
    std::optional<std::size_t> bit = std::nullopt;  // that is flipped
  };

  // As recovery has it: behind the recovery point of another boot the log ends where a segment was cut, or the next one does not
  // follow on.
  bool is_left_by_restart(std::size_t number) const {
    const auto base = result_.sources[number].base;
    if (number == 0 || !known_.suspect || base <= known_.suspect->segment) return false;
    return is_cut_ || base != next_;
  }

  void leave_out(std::size_t number) {
    is_cut_ = true;  // nor does what is behind it
    result_.sizes.push_back(0);
    std::erase_if(result_.segments, [&](const SegmentPath& one) { return one.base == result_.sources[number].base; });
  }

  void walk(std::size_t number) {
    file_ = number;
    next_ = result_.sources[number].base;
    fronts_ = {next_, next_};
    last_.reset();
    is_broken_ = true;
    auto inspect = options_.inspect;
    inspect.expect_any_offsets = true;
    inspect.decompression_limit =
        std::max(inspect.decompression_limit, format::default_decompression_limit);  // as readers have it
    if (number + 1 < result_.sources.size()) inspect.next_base = result_.sources[number + 1].base;
    SegmentFile file(result_.sources[number].path, inspect);
    for (auto step = file.next(); step != SegmentFile::Step::end; step = file.next()) {
      is_cut_ = step == SegmentFile::Step::torn_tail;
      if (is_cut_) break;
      look_at(file, step);
    }
    const bool is_last = number + 1 == result_.sources.size();
    settle_last(is_last ? synced_behind_last() : inspect.next_base);
    result_.sizes.push_back(file.size());
  }

  std::optional<Offset> synced_behind_last() const {
    const auto& point = known_.synced;
    if (!last_ || !point || last_->info.position >= point->position) return std::nullopt;
    return point->offset;
  }

  void look_at(SegmentFile& file, SegmentFile::Step step) {
    const auto seen = seen_at(file, step);
    settle_last(seen ? std::optional(seen->info.base_offset) : std::nullopt);
    if (seen && seen->bit) {
      last_ = seen;
      return;
    }
    if (seen && is_decodable(file, options_.inspect, is_keyless_)) {
      const auto& batch = seen->info;
      const bool is_thinned = batch.count >= 0 && batch.count != batch.last_offset - batch.base_offset + 1 && !batch.is_control();
      has_holes_ = has_holes_ || is_thinned || batch.delete_horizon();
      last_ = seen;
      return;
    }
    if (step == SegmentFile::Step::batch && (!seen || seen->fits)) note_lost_end(file.batch());
    if (file.finding().next) lost_end_ = std::max(lost_end_, *file.finding().next);
    is_broken_ = true;
    fronts_.reset();
  }

  // nullopt: it cannot be saved. Of what is damaged only a marker can: with it would be lost whether its records count.
  std::optional<Seen> seen_at(const SegmentFile& file, SegmentFile::Step step) const {
    if (step == SegmentFile::Step::batch && file.batch().is_valid) return Seen{file.batch(), file.finding().reason.empty()};
    char bytes[format::largest_marker];
    const auto position = file.finding().position;
    const auto size = file.finding().end - position;
    if (size > std::ssize(bytes)) return std::nullopt;
    const auto batch = std::span(bytes).first(static_cast<std::size_t>(size));
    if (os::File::open(file.path(), os::File::Mode::read).read_at(batch, position.value) < batch.size()) return std::nullopt;
    const auto flipped = format::flipped_bit_of_marker(batch);
    if (!flipped) return std::nullopt;
    BatchInfo info;
    info.position = position;
    info.size = size;
    info.base_offset = flipped->right.base_offset;
    info.last_offset = flipped->right.last_offset();
    info.leader_epoch = flipped->right.leader_epoch;
    return Seen{info, info.base_offset >= next_, flipped->bit};
  }

  // A batch with a wrong checksum at the end tells where the log ended, if its header makes sense. That of a wrapper has the last
  // offset only.
  void note_lost_end(const BatchInfo& batch) {
    constexpr std::int64_t most_for_a_byte = 40;  // records, however well they are compressed
    const bool is_wrapper = batch.magic < 2 && batch.compression() != Compression::none;
    const bool makes_sense =
        is_wrapper
            ? batch.last_offset >= next_ && batch.last_offset - next_ < most_for_a_byte * batch.size
            : batch.base_offset == next_ && batch.count == batch.last_offset - batch.base_offset + 1 && batch.count <= batch.size;
    if (makes_sense) lost_end_ = std::max(lost_end_, batch.next_offset());
  }

  // A batch is settled once it is known where the log goes on behind it.
  void settle_last(std::optional<Offset> next) {
    if (last_) settle(*last_, next);
    last_.reset();
  }

  void settle(const Seen& seen, std::optional<Offset> behind) {
    const auto& info = seen.info;
    const auto span = info.last_offset - info.base_offset + 1;
    Run run;
    run.file = file_;
    run.position = info.position.value;
    run.end = info.position.value + info.size;
    run.first = info.base_offset;
    run.next = info.next_offset();
    const auto places = places_of(seen, behind);
    if (places.size() == 1) run.place = places.front();
    run.is_exact = run.place && behind && fronts_ && *behind - *run.place == span &&
                   (*run.place == fronts_->meant || *run.place == fronts_->said);
    run.epoch = epoch_to_be(epochs_, info, run.first);
    run.fits = seen.fits;
    run.bit = seen.bit;
    run.is_strange = places.size() > 1 || (!seen.fits && !run.place);
    const bool goes_on = run.place && fronts_ && *run.place == fronts_->said;
    if (goes_on && !result_.runs.empty() && result_.runs.back().file == file_) trust(result_.runs.back());
    const bool is_by_front = run.place && fronts_ && (goes_on || *run.place == fronts_->meant);
    fronts_ = {run.next, is_by_front ? *run.place + span : run.next};
    if (seen.fits || !run.is_strange || run.first >= next_) next_ = seen.fits ? run.next : run.place.value_or(run.first) + span;
    add(run);
  }

  // It was the one behind it that contradicted its offset.
  static void trust(Run& run) {
    if (!run.place) return;
    run.place.reset();
    run.is_strange = !run.fits;
  }

  // The places where what is around a batch would have it, though it says other offsets: it fills just the room between the two,
  // or one bit less would have put it next to one of them.
  std::vector<Offset> places_of(const Seen& seen, std::optional<Offset> behind) const {
    const auto& info = seen.info;
    const auto span = info.last_offset - info.base_offset + 1;
    const auto goes_on_from = [&](Offset front) { return is_next(front, info.base_offset, lost_); };
    const auto is_linked = (fronts_ && (goes_on_from(fronts_->said) || goes_on_from(fronts_->meant))) ||
                           (behind && is_next(info.next_offset(), *behind, lost_));
    if (is_linked || info.magic != 2) return {};
    std::vector<Offset> places;
    for (const auto which : {&Fronts::meant, &Fronts::said}) {
      if (!fronts_) break;
      const auto front = *fronts_.*which;
      if (front > no_limit - span) continue;
      if (!seen.fits && behind && *behind - front == span) return {front};
      const bool has_room = !behind || *behind < front || *behind - front >= span;
      const bool is_behind_batch = info.position.value > 0;  // a file may have another one's name
      if (has_room && places.empty() && is_behind_batch && format::is_one_bit_off(info.base_offset, front))
        places.push_back(front);
    }
    const bool has_room = behind && (!fronts_ || fronts_->meant > *behind || *behind - fronts_->meant >= span);
    if (has_room && format::is_one_bit_off(info.base_offset, *behind - span)) places.push_back(*behind - span);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
  }

  void add(const Run& run) {
    auto& runs = result_.runs;
    const bool is_plain = !run.place && !run.is_changed();
    if (!is_broken_ && is_plain && runs.back().end == run.position && runs.back().next <= run.first && was_plain_ &&
        runs.back().is_strange == run.is_strange && !is_missing(runs.back().next, run.first)) {
      runs.back().end = run.end;
      runs.back().next = run.next;
    } else {
      runs.push_back(run);
    }
    is_broken_ = false;
    was_plain_ = is_plain;
  }

  // Whether offsets that are not there are missing, as the check has it.
  bool has_all() const { return (known_.is_dense || is_keyless_) && !has_holes_; }

  // Whether the offsets from `first` to below `next` should be there. What a compaction has left out does not end a run.
  bool is_missing(Offset first, Offset next) const {
    if (first >= next) return false;
    if (has_all()) return true;
    const auto at = std::lower_bound(missing_.begin(), missing_.end(), first,
                                     [](const auto& range, Offset offset) { return range.second < offset; });
    return at != missing_.end() && at->first < next;
  }

  // No segment begins inside of a batch: one that is said to has a wrong name. It gets the name that its first batch tells.
  void lay_out() {
    if (result_.runs.empty()) return;
    auto& segments = result_.segments;
    const auto add = [&](Offset base) {
      const auto at = std::lower_bound(segments.begin(), segments.end(), base,
                                       [](const SegmentPath& one, Offset offset) { return one.base < offset; });
      const auto& sibling = result_.sources.front().path;
      const auto directory = sibling.substr(0, sibling.rfind('/') + 1);
      if (at == segments.end() || at->base != base)
        segments.insert(at, {directory + format::segment_file_name(base, format::log_suffix), base});
    };
    for (std::size_t i = 0; i < result_.sources.size(); ++i) {
      const auto base = result_.sources[i].base;
      if (!is_inside_batch(base) && !is_past_end(i)) continue;
      std::erase_if(segments, [&](const SegmentPath& segment) { return segment.base == base; });
      const auto first = std::find_if(result_.runs.begin(), result_.runs.end(),
                                      [&](const Run& run) { return run.file == i && run.position == 0; });
      if (first != result_.runs.end()) add(first->start());
    }
    if (segments.empty() || result_.runs.front().start() < segments.front().base) add(result_.runs.front().start());
  }

  // What it holds stands before the end of the log, and nothing else tells of its name.
  bool is_past_end(std::size_t file) const {
    const auto base = result_.sources[file].base;
    const bool is_known = known_.synced && (known_.synced->segment == base || known_.synced->offset >= base);
    return !is_known && result_.end < base &&
           std::any_of(result_.runs.begin(), result_.runs.end(), [&](const Run& run) { return run.file == file; });
  }

  bool is_inside_batch(Offset offset) const {
    return std::any_of(result_.runs.begin(), result_.runs.end(), [&](const Run& run) {
      if (run.start() >= offset || run.stop() <= offset) return false;
      const auto batch = batch_in(run, result_.sources[run.file].path, options_.inspect, offset, offset + 1);
      return batch && (run.offset || batch->base_offset < offset);
    });
  }

  const CheckOptions& options_;
  const LogState& known_;
  const LostRanges& missing_;
  const LostRanges& lost_;
  std::vector<format::EpochStart> epochs_;
  Salvage result_;
  std::size_t file_ = 0;
  bool is_cut_ = false;  // the segment before has a torn tail
  Offset next_;          // behind the last batch
  std::optional<Fronts> fronts_;
  std::optional<Seen> last_;
  Offset lost_end_;
  bool is_broken_ = true;  // what stands here does not go on with the last run
  bool was_plain_ = false;
  bool is_keyless_ = false;
  bool has_holes_ = false;  // a compaction has been here
};

}  // namespace

// Appends batches to a new file, many with one call.
class BatchWriter {
 public:
  explicit BatchWriter(const std::string& path) : file_(os::File::open(path, os::File::Mode::create_new)) {}

  void copy(const os::File& from, std::int64_t position, std::int64_t size, const Run& run) {
    const auto start = bytes_.size();
    bytes_.resize(start + static_cast<std::size_t>(size));
    const auto into = std::span(bytes_).subspan(start);
    if (from.read_at(into, position) < into.size()) {
      throw Error(ErrorCode::io, "read " + from.path() + ": it has become shorter meanwhile");
    }
    if (run.offset) store_big_endian(into.data() + format::field::base_offset, run.offset->value);
    if (run.epoch) store_big_endian(into.data() + format::field::leader_epoch, *run.epoch);
    if (run.bit) into[*run.bit / 8] = static_cast<char>(into[*run.bit / 8] ^ 1 << *run.bit % 8);
    if (bytes_.size() >= piece_size) flush();
  }

  void finish() {
    flush();
    file_.sync_data();
    file_.close();
  }

 private:
  void flush() {
    file_.write_at(bytes_, size_);
    size_ += static_cast<std::int64_t>(bytes_.size());
    bytes_.clear();
  }

  os::File file_;
  std::vector<char> bytes_;
  std::int64_t size_ = 0;
};

Salvage survey(const PartitionContext& context, const LogState& known, const LostRanges& missing, bool epochs_are_right,
               const CheckOptions& options) {
  return Survey(context, known, missing, epochs_are_right, options).run();
}

LostRanges merged(LostRanges ranges) {
  std::sort(ranges.begin(), ranges.end());
  LostRanges apart;
  for (const auto& [first, last] : ranges) {
    if (!apart.empty() && first <= apart.back().second + 1) {
      apart.back().second = std::max(apart.back().second, last);
    } else {
      apart.emplace_back(first, last);
    }
  }
  return apart;
}

LostRanges covered(const std::vector<Run>& runs) {
  LostRanges ranges;
  for (const auto& run : runs) ranges.emplace_back(run.start(), run.stop() - 1);
  return merged(std::move(ranges));
}

LostRanges without(const LostRanges& ranges, const LostRanges& taken) {
  LostRanges rest;
  for (auto [first, last] : ranges) {
    for (const auto& [from, to] : taken) {
      if (to < first || from > last) continue;
      if (from > first) rest.emplace_back(first, from - 1);
      first = to + 1;
    }
    if (first <= last) rest.emplace_back(first, last);
  }
  return rest;
}

SegmentMaker::SegmentMaker(const Salvage& salvage, std::size_t number)
    : salvage_(salvage),
      base_(salvage.segments[number].base),
      limit_(number + 1 < salvage.segments.size() ? salvage.segments[number + 1].base : no_limit) {
  for (const auto& run : salvage.runs) {
    if (run.start() < limit_ && run.stop() > base_) runs_.push_back(&run);
  }
}

bool SegmentMaker::is_right() const {
  const auto& sources = salvage_.sources;
  const auto source = std::find_if(sources.begin(), sources.end(), [&](const SegmentPath& one) { return one.base == base_; });
  if (source == sources.end()) return false;
  const auto file = static_cast<std::size_t>(source - sources.begin());
  std::int64_t position = 0;
  Offset next = base_;
  for (const auto* run : runs_) {
    const bool goes_on = run->file == file && run->position == position && run->first >= next;
    if (!goes_on || run->is_changed()) return false;
    position = run->end;
    next = run->next;
  }
  return position == salvage_.sizes[file] && next <= limit_;
}

void SegmentMaker::write(const std::string& path, const InspectOptions& options) const {
  BatchWriter writer(path);
  Offset next = base_;
  for (const auto* run : runs_) {
    const auto& source = salvage_.sources[run->file].path;
    const auto bytes = os::File::open(source, os::File::Mode::read);
    const auto take = [&](std::int64_t position, std::int64_t size, Offset first, Offset stop) {
      if (first < next || first >= limit_) return;
      writer.copy(bytes, position, size, *run);
      next = stop;
    };
    if (run->bit) {  // no batch as it is
      take(run->position, run->end - run->position, run->start(), run->stop());
      continue;
    }
    SegmentFile file(source, options);
    file.seek({run->position});
    while (file.next() == SegmentFile::Step::batch && file.batch().position.value < run->end) {
      const auto& batch = file.batch();
      const auto first = run->offset.value_or(batch.base_offset);
      take(batch.position.value, batch.size, first, first + (batch.last_offset - batch.base_offset + 1));
    }
  }
  writer.finish();
}

}  // namespace partlog::inspect

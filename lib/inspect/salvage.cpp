#include "inspect/salvage.h"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>

#include "base/byte_order.h"
#include "format/batch_header.h"
#include "format/checkpoint.h"
#include "format/file_names.h"
#include "os/directory.h"
#include "os/file.h"

namespace partlog::inspect {

namespace {

constexpr std::size_t piece_size = 1 << 20;
constexpr Offset no_limit{std::numeric_limits<std::int64_t>::max()};

// Of a batch too large to be looked into, a right checksum is enough: it is not to be lost for its size.
bool is_decodable(SegmentFile& file, const InspectOptions& options) {
  if (static_cast<std::size_t>(file.batch().size) > options.largest_batch) return true;
  while (!file.records().empty()) {
  }
  return file.records_fault().empty();
}

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
      : options_(options), known_(known), missing_(missing) {
    if (epochs_are_right) epochs_ = epochs_of(context);
    result_.segments = segment_paths(context.directory);
  }

  Salvage run() {
    for (std::size_t i = 0; i < result_.segments.size(); ++i) walk(i);
    find_places();
    drop_strangers();
    std::sort(result_.runs.begin(), result_.runs.end(), [](const Run& a, const Run& b) {
      return std::tuple(a.start(), a.file, a.position) < std::tuple(b.start(), b.file, b.position);
    });
    for (const auto& run : result_.runs) result_.end = std::max(result_.end, run.stop());
    if (known_.synced) result_.end = std::max(result_.end, known_.synced->offset);
    result_.end = std::max({result_.end, lost_end_, result_.segments.back().base});
    return std::move(result_);
  }

 private:
  struct Seen {
    BatchInfo info;
    bool fits;  // nothing around it says that its offset is wrong
  };

  void walk(std::size_t number) {
    file_ = number;
    next_ = result_.segments[number].base;
    last_.reset();
    is_broken_ = true;
    auto inspect = options_.inspect;
    inspect.decompression_limit =
        std::max(inspect.decompression_limit, format::default_decompression_limit);  // as readers have it
    if (number + 1 < result_.segments.size()) inspect.next_base = result_.segments[number + 1].base;
    SegmentFile file(result_.segments[number].path, inspect);
    for (auto step = file.next(); step != SegmentFile::Step::end; step = file.next()) {
      look_at(file, step);
      if (step == SegmentFile::Step::torn_tail) break;
    }
    const bool is_last = number + 1 == result_.segments.size();
    settle_last(!is_last ? inspect.next_base : known_.synced ? std::optional(known_.synced->offset) : std::nullopt);
    result_.sizes.push_back(file.size());
  }

  void look_at(SegmentFile& file, SegmentFile::Step step) {
    const auto seen = step == SegmentFile::Step::batch && file.batch().is_valid
                          ? std::optional(Seen{file.batch(), file.finding().reason.empty()})
                          : std::nullopt;
    settle_last(seen ? std::optional(seen->info.base_offset) : std::nullopt);
    if (seen && is_decodable(file, options_.inspect)) {
      last_ = seen;
      return;
    }
    if (step == SegmentFile::Step::batch && (!seen || seen->fits)) note_lost_end(file.batch());
    is_broken_ = true;
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

  // Where the batches around one leave room for just its offsets at another place, that place may be the right one: see
  // find_places().
  void settle(const Seen& seen, std::optional<Offset> behind) {
    const auto& info = seen.info;
    const auto span = info.last_offset - info.base_offset + 1;
    Run run{file_, info.position.value, info.position.value + info.size, info.base_offset, info.next_offset(), {}, {}};
    const bool is_misplaced = info.base_offset != next_ && info.magic == 2 && behind && *behind - next_ == span;
    if (is_misplaced) run.offset = next_;
    if (const auto epoch = epoch_at(run.offset.value_or(run.first)); epoch && *epoch != info.leader_epoch && info.magic == 2)
      run.epoch = epoch;
    is_strange_ = !seen.fits && !run.offset;
    if (!is_strange_ || run.first >= next_) next_ = run.offset.value_or(run.first) + span;
    add(run);
  }

  void add(const Run& run) {
    auto& runs = result_.runs;
    const bool is_plain = !run.offset && !run.epoch;
    if (!is_broken_ && is_plain && runs.back().end == run.position && runs.back().next <= run.first && was_plain_ &&
        strange_.back() == is_strange_ && !is_missing(runs.back().next, run.first)) {
      runs.back().end = run.end;
      runs.back().next = run.next;
    } else {
      runs.push_back(run);
      strange_.push_back(is_strange_);
    }
    is_broken_ = false;
    was_plain_ = is_plain;
  }

  // Whether the offsets from `first` to below `next` should be there. What a compaction has left out does not end a run.
  bool is_missing(Offset first, Offset next) const {
    if (first >= next) return false;
    const auto at = std::lower_bound(missing_.begin(), missing_.end(), first,
                                     [](const auto& range, Offset offset) { return range.second < offset; });
    return at != missing_.end() && at->first < next;
  }

  std::optional<std::int32_t> epoch_at(Offset offset) const {
    std::optional<std::int32_t> epoch;
    for (const auto& start : epochs_) {
      if (start.start <= offset) epoch = start.epoch;
    }
    return epoch;
  }

  // A batch that does not fit where it stands, but for its offset: if its own place in the log is free it belongs there, if the
  // same batch is there already it is a copy. Else it is the offset that is damaged.
  void find_places() {
    Offset end = known_.synced ? known_.synced->offset : Offset{0};
    for (std::size_t i = 0; i < result_.runs.size(); ++i) {
      if (!result_.runs[i].offset && !strange_[i]) end = std::max(end, result_.runs[i].stop());
    }
    for (std::size_t i = 0; i < result_.runs.size();) {
      auto& run = result_.runs[i];
      const bool has_a_place = run.offset && run.next <= end && run.first >= result_.segments.front().base;
      const auto* there = has_a_place ? run_with(run.first, run.next) : nullptr;
      if (there != nullptr && is_copy(run, *there)) {
        result_.runs.erase(result_.runs.begin() + static_cast<std::ptrdiff_t>(i));
        strange_.erase(strange_.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      if (has_a_place && there == nullptr) {
        const auto batch = batch_of(run, run.first);
        const auto epoch = epoch_at(run.first);
        run.offset.reset();
        run.epoch = batch && epoch && *epoch != batch->leader_epoch ? epoch : std::nullopt;
        strange_[i] = true;
      }
      ++i;
    }
  }

  // One that stands in its place and has any of these offsets.
  const Run* run_with(Offset first, Offset next) const {
    const auto at = std::find_if(result_.runs.begin(), result_.runs.end(),
                                 [&](const Run& run) { return !run.offset && run.first < next && run.next > first; });
    return at == result_.runs.end() ? nullptr : &*at;
  }

  std::optional<BatchInfo> batch_of(const Run& run, Offset base) const {
    SegmentFile file(result_.segments[run.file].path, options_.inspect);
    file.seek({run.position});
    while (file.next() == SegmentFile::Step::batch && file.batch().position.value < run.end) {
      if (file.batch().base_offset == base) return file.batch();
    }
    return std::nullopt;
  }

  bool is_copy(const Run& run, const Run& there) const {
    const auto one = batch_of(run, run.first);
    const auto other = batch_of(there, run.first);
    return one && other && one->crc == other->crc && one->size == other->size;
  }

  // Offsets that nothing vouches for: not those of what stands in another segment, but a damaged one. Behind what is known of the
  // log nothing of the kind is believed.
  void drop_strangers() {
    Offset end = known_.synced ? known_.synced->offset : Offset{0};
    for (std::size_t i = 0; i < result_.runs.size(); ++i) {
      if (!strange_[i]) end = std::max(end, result_.runs[i].stop());
    }
    std::vector<Run> kept;
    for (std::size_t i = 0; i < result_.runs.size(); ++i) {
      const auto& run = result_.runs[i];
      const bool begins_a_segment = std::any_of(result_.segments.begin(), result_.segments.end(),
                                                [&](const SegmentPath& segment) { return segment.base == run.first; });
      if (!strange_[i] || run.first < end || begins_a_segment) kept.push_back(run);
    }
    result_.runs = std::move(kept);
  }

  const CheckOptions& options_;
  const LogState& known_;
  const LostRanges& missing_;
  std::vector<format::EpochStart> epochs_;
  Salvage result_;
  std::vector<bool> strange_;  // of each run: its offsets do not fit where it stands
  std::size_t file_ = 0;
  Offset next_;  // behind the last batch
  std::optional<Seen> last_;
  Offset lost_end_;
  bool is_broken_ = true;  // what stands here does not go on with the last run
  bool was_plain_ = false;
  bool is_strange_ = false;
};

}  // namespace

// Appends batches to a new file, many with one call.
class BatchWriter {
 public:
  explicit BatchWriter(const std::string& path) : file_(os::File::open(path, os::File::Mode::create_new)) {}

  void copy(const os::File& from, const BatchInfo& batch, const Run& run) {
    const auto start = bytes_.size();
    bytes_.resize(start + static_cast<std::size_t>(batch.size));
    const auto into = std::span(bytes_).subspan(start);
    if (from.read_at(into, batch.position.value) < into.size()) {
      throw Error(ErrorCode::io, "read " + from.path() + ": it has become shorter meanwhile");
    }
    if (run.offset) store_big_endian(into.data() + format::field::base_offset, run.offset->value);
    if (run.epoch) store_big_endian(into.data() + format::field::leader_epoch, *run.epoch);
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
      number_(number),
      base_(salvage.segments[number].base),
      limit_(number + 1 < salvage.segments.size() ? salvage.segments[number + 1].base : no_limit) {
  for (const auto& run : salvage.runs) {
    if (run.start() < limit_ && run.stop() > base_) runs_.push_back(&run);
  }
}

bool SegmentMaker::is_right() const {
  std::int64_t position = 0;
  Offset next = base_;
  for (const auto* run : runs_) {
    const bool goes_on = run->file == number_ && run->position == position && run->first >= next;
    if (!goes_on || run->offset || run->epoch) return false;
    position = run->end;
    next = run->next;
  }
  return position == salvage_.sizes[number_] && next <= limit_;
}

void SegmentMaker::write(const std::string& path, const InspectOptions& options) const {
  BatchWriter writer(path);
  Offset next = base_;
  for (const auto* run : runs_) {
    const auto& source = salvage_.segments[run->file].path;
    const auto bytes = os::File::open(source, os::File::Mode::read);
    SegmentFile file(source, options);
    file.seek({run->position});
    while (file.next() == SegmentFile::Step::batch && file.batch().position.value < run->end) {
      const auto& batch = file.batch();
      const auto first = run->offset.value_or(batch.base_offset);
      if (first < next || first >= limit_) continue;
      writer.copy(bytes, batch, *run);
      next = first + (batch.last_offset - batch.base_offset + 1);
    }
  }
  writer.finish();
}

}  // namespace partlog::inspect

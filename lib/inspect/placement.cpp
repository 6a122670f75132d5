#include "inspect/placement.h"

#include <algorithm>
#include <limits>

#include "format/batch_header.h"

namespace partlog::inspect {

namespace {

constexpr Offset no_limit{std::numeric_limits<std::int64_t>::max()};

class Placement {
 public:
  Placement(Salvage& salvage, const Evidence& evidence, const InspectOptions& options)
      : salvage_(salvage), runs_(salvage.runs), known_(evidence.known), evidence_(evidence), options_(options) {}

  void run() {
    decide();
    drop_ambiguous();
    drop_strangers();
    drop_strangers_in_front();
  }

 private:
  void decide() {
    auto end = vouched_end();
    for (auto& run : runs_) {
      if (run.fits && !salvage_.has_all) run.is_strange = false;
      if (!run.place && run.is_strange && is_believed(run, end)) end = std::max(end, run.stop());
    }
    for (std::size_t i = 0; i < runs_.size();) {
      if (!runs_[i].place) {
        ++i;
      } else if (is_copy(runs_[i])) {
        runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        decide(runs_[i++], end);
      }
    }
  }

  // Both the offsets that a batch says and those of its place speak for themselves. Another batch that says it belongs into the
  // place decides, then a single bit that makes the difference, then whether the offsets are taken.
  void decide(Run& run, Offset end) {
    const auto place = *run.place;
    const auto claimed = is_claimed(run, place, place + (run.next - run.first));
    run.place.reset();
    const bool is_right = claimed || (!run.is_exact && (!salvage_.has_all || goes_on_somewhere(run))) ||
                          (!format::is_one_bit_off(run.first, place) && may_be_right(run, end));
    run.is_strange = is_right && !run.fits;
    if (is_right) return;
    run.offset = place;
    if (const auto batch = batch_in(run, place, run.stop())) run.epoch = epoch_to_be(evidence_.epochs, *batch, place);
  }

  bool may_be_right(const Run& run, Offset end) const {
    const bool is_possible = known_.synced ? run.first <= end : is_near(run, end);
    return is_possible && !has_batch(run, run.first, run.next);
  }

  // The same batch stands elsewhere, with the same offsets or such as one flipped bit makes of them.
  bool is_copy(const Run& run) const {
    const auto batch = batch_in(run, run.first, run.next);
    if (!batch) return false;
    const auto span = run.next - run.first;
    for (int bit = -1; bit < 63; ++bit) {
      const Offset first{bit < 0 ? run.first.value : run.first.value ^ std::int64_t{1} << bit};
      if (first > no_limit - span) continue;
      const bool is_there = std::any_of(runs_.begin(), runs_.end(), [&](const Run& other) {
        if (&other == &run || other.place || other.offset) return false;
        const auto there = batch_in(other, first, first + span);
        return there && there->crc == batch->crc && there->size == batch->size && there->base_offset == first;
      });
      if (is_there) return true;
    }
    return false;
  }

  // Another batch says that it has some of these offsets, wherever it stands.
  bool is_claimed(const Run& run, Offset first, Offset next) const {
    return std::any_of(runs_.begin(), runs_.end(),
                       [&](const Run& other) { return &other != &run && batch_in(other, first, next); });
  }

  // Another one has some of them, as far as it is decided.
  bool has_batch(const Run& run, Offset first, Offset next) const {
    return std::any_of(runs_.begin(), runs_.end(),
                       [&](const Run& other) { return &other != &run && !other.place && batch_in(other, first, next); });
  }

  std::optional<BatchInfo> batch_in(const Run& run, Offset first, Offset next) const {
    return inspect::batch_in(run, salvage_.sources[run.file].path, options_, first, next);
  }

  // A single batch among damage whose offsets nobody else has, but which may be others of those missing here with one bit
  // flipped.
  void drop_ambiguous() {
    std::vector<bool> is_ambiguous;
    is_ambiguous.reserve(runs_.size());
    for (const auto& run : runs_) is_ambiguous.push_back(run.is_strange && !has_several(run) && may_be_flipped(run));
    const auto vouched = vouched_end();
    std::size_t i = 0;
    std::erase_if(runs_, [&](const Run& run) {
      if (!is_ambiguous[i++]) return false;
      if (run.next <= vouched) salvage_.dropped.emplace_back(run.first, run.next - 1);
      return true;
    });
  }

  bool may_be_flipped(const Run& run) const {
    const auto room = room_of(run);
    const auto from = room.first;
    const auto to = room.second;
    const auto span = run.next - run.first;
    const auto is_linked = [&](Offset first) {
      return is_next(from, first, evidence_.lost) || is_next(first + span, to, evidence_.lost);
    };
    const bool is_inside = run.first >= from && run.next <= to;
    if ((is_inside && (!salvage_.has_all || is_linked(run.first))) || has_batch(run, run.first, run.next) || fills_hole(run))
      return false;
    for (int bit = 0; bit < 63; ++bit) {
      const Offset other{run.first.value ^ std::int64_t{1} << bit};
      if (other < from || to - other < span || (is_inside && !is_linked(other))) continue;
      if (!has_batch(run, other, other + span)) return true;
    }
    return false;
  }

  // Just its offsets are missing among those of others.
  bool fills_hole(const Run& run) const { return one_ends_at(run.first) && one_begins_at(run.next); }

  // Another batch ends or begins just there, wherever it stands.
  bool goes_on_somewhere(const Run& run) const { return one_ends_at(run.first) || one_begins_at(run.next); }

  bool one_ends_at(Offset offset) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const Run& run) { return run.stop() == offset; });
  }

  bool one_begins_at(Offset offset) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const Run& run) { return run.start() == offset; });
  }

  // The offsets that may be missing where it stands: from behind what is in front of it to what is behind, but for other single
  // batches that do not fit.
  std::pair<Offset, Offset> room_of(const Run& run) const {
    const auto& sources = salvage_.sources;
    auto from = sources[run.file].base;
    auto to = run.file + 1 < sources.size() ? sources[run.file + 1].base : vouched_end();
    for (const auto& other : runs_) {
      if (other.file != run.file || (other.is_strange && !has_several(other))) continue;
      if (other.position < run.position) from = other.stop();
      if (other.position > run.position) return {from, other.start()};
    }
    return {from, to};
  }

  // Behind what stands in its place, and what was synced.
  Offset vouched_end() const {
    Offset end = known_.synced ? known_.synced->offset : Offset{0};
    for (const auto& run : runs_) {
      if (!run.is_strange && !run.place) end = std::max(end, run.stop());
    }
    return end;
  }

  bool is_believed(const Run& run, Offset end) const {
    const bool begins_a_segment = std::any_of(salvage_.sources.begin(), salvage_.sources.end(),
                                              [&](const SegmentPath& segment) { return segment.base == run.first; });
    return is_near(run, end) || begins_a_segment || (is_in_reach(run) && has_several(run));
  }

  // No segment holds offsets that its indexes cannot name.
  bool is_in_reach(const Run& run) const {
    return run.stop() - salvage_.sources[run.file].base <= std::numeric_limits<std::int32_t>::max();
  }

  // No further behind the end of what is known of the log than that is long.
  bool is_near(const Run& run, Offset end) const {
    const auto known = std::max(end - salvage_.sources.front().base, std::int64_t{0});
    return run.first <= end || run.first - end <= known;
  }

  // One damaged offset does not make several batches stand in a row.
  bool has_several(const Run& run) const {
    const auto batch = batch_in(run, run.first, run.next);
    return batch && batch->next_offset() < run.next;
  }

  // Offsets that nothing vouches for: not those of what stands in another segment, but a damaged one. Behind what is known of the
  // log nothing of the kind is believed, unless it goes on just there.
  void drop_strangers() {
    auto end = vouched_end();
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.start() < b.start(); });
    std::erase_if(runs_, [&](const Run& run) {
      if (run.is_strange && !is_believed(run, end)) return true;
      end = std::max(end, run.stop());
      return false;
    });
  }

  // The same at the start.
  void drop_strangers_in_front() {
    auto start = salvage_.sources.front().base;
    for (auto i = runs_.size(); i-- > 0;) {
      const auto& run = runs_[i];
      const auto& log_start = known_.log_start;
      const bool is_vouched_for = run.stop() >= start || (log_start ? *log_start < run.stop() : has_several(run));
      if (is_vouched_for || !run.is_strange) {
        start = std::min(start, run.start());
      } else {
        if (!log_start) salvage_.dropped.emplace_back(run.start(), run.stop() - 1);
        runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  Salvage& salvage_;
  std::vector<Run>& runs_;
  const LogState& known_;
  const Evidence& evidence_;
  const InspectOptions& options_;
};

}  // namespace

std::optional<std::int32_t> epoch_to_be(const std::vector<format::EpochStart>& epochs, const BatchInfo& batch, Offset offset) {
  std::optional<std::int32_t> epoch;
  for (const auto& start : epochs) {
    if (start.start <= offset) epoch = start.epoch;
  }
  return epoch && *epoch != batch.leader_epoch && batch.magic == 2 ? epoch : std::nullopt;
}

bool is_next(Offset end, Offset first, const LostRanges& lost) {
  return end == first || (end < first && !not_listed(end, first, lost));
}

void place_runs(Salvage& salvage, const Evidence& evidence, const InspectOptions& options) {
  Placement(salvage, evidence, options).run();
}

}  // namespace partlog::inspect

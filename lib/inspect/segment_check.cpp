#include "inspect/segment_check.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "format/file_names.h"
#include "inspect/index_check.h"
#include "inspect/unreadable.h"
#include "log/partition_directory.h"

namespace partlog::inspect {

namespace {

using Kind = CheckFinding::Kind;

constexpr std::size_t most_findings = 100'000;  // held at a time: more are only counted

std::string sibling(const std::string& path, std::string_view suffix) {
  return path.substr(0, path.size() - std::min(path.size(), format::log_suffix.size())).append(suffix);
}

class SegmentCheck {
 public:
  SegmentCheck(const SegmentToCheck& segment, LogState& state, const LostRanges& lost, const CheckOptions& options)
      : segment_(segment), state_(state), lost_(lost), options_(options) {}

  std::vector<CheckFinding> run() {
    // The indexes first: what they say, the segment holds already.
    if (segment_.path.ends_with(format::log_suffix)) {
      const auto name = segment_.path.substr(segment_.path.rfind('/') + 1);
      if (const auto base = format::parse_segment_file_name(name, format::log_suffix)) {
        offsets_.emplace(sibling(segment_.path, format::index_suffix), *base);
        times_.emplace(sibling(segment_.path, format::time_index_suffix), *base);
      }
    }
    auto inspect = options_.inspect;
    inspect.next_base = segment_.next_base;
    SegmentFile file(segment_.path, inspect);
    base_ = file.base_offset();
    try {
      walk(file);
      finish(file);
    } catch (const Error& error) {
      if (!is_unreadable(error)) throw;
      add(unreadable_rest(segment_, state_, error.what()));
    }
    return std::move(findings_);
  }

 private:
  void walk(SegmentFile& file) {
    while (options_.stop == nullptr || !options_.stop->load(std::memory_order_relaxed)) {
      switch (file.next()) {
        case SegmentFile::Step::batch:
          take_batch(file);
          break;
        case SegmentFile::Step::damage:
          pass_over(file.finding(), Kind::damage);
          break;
        case SegmentFile::Step::torn_tail:
          finish_damage();
          pass_over(file.finding(), was_synced(file.finding().position) ? Kind::damage : Kind::torn_tail);
          end_ = file.finding().end;
          return;
        case SegmentFile::Step::end:
          end_ = file.finding().position;
          return;
      }
    }
    is_stopped_ = true;
  }

  // Whether what stands there was on stable storage once, so that no writer that died has left it.
  bool was_synced(Position position) const {
    const auto& point = state_.synced;
    return point && base_ && (*base_ < point->segment || (*base_ == point->segment && position < point->position));
  }

  void take_batch(SegmentFile& file) {
    const auto batch = file.batch();
    const auto& finding = file.finding();
    if (!batch.is_valid || !finding.reason.empty()) {
      pass_over(finding, Kind::damage);
      if (batch.is_valid) {  // whole, but not where it should be
        findings_.back().first_offset = batch.base_offset;
        findings_.back().last_offset = batch.last_offset;
        extend_pending();
      }
      return;
    }
    const bool has_holes = batch.count >= 0 && batch.count != batch.last_offset - batch.base_offset + 1;
    const bool is_compacted = (has_holes && !batch.is_control()) || batch.delete_horizon();
    const bool is_hole_inside = batch.position.value > 0 && is_behind_gap(batch);
    if (is_compacted || (batch.magic < 2 && is_hole_inside)) state_.has_holes = true;
    judge_gap(batch);
    close_pending();
    state_.next = std::max(state_.next.value_or(batch.next_offset()), batch.next_offset());
    if (!state_.first) state_.first = batch.base_offset;
    state_.end = batch.next_offset();
    ++state_.batches;
    if (offsets_) offsets_->add(batch);
    if (times_) times_->add(batch);
    const auto told = findings_.size();
    judge_epoch(batch);
    if (findings_.size() == told) {
      compare_with_checkpoint(batch);
    } else {
      state_.misfit.reset();  // it is the batch that is wrong
    }
    look_into(file, batch);
  }

  void look_into(SegmentFile& file, const BatchInfo& batch) {
    std::uint64_t count = 0;
    for (auto records = file.records(); !records.empty(); records = file.records()) {
      count += records.size();
      if (state_.is_keyless || batch.is_control()) continue;
      state_.is_keyless = std::any_of(records.begin(), records.end(), [](const Record& r) { return r.key.is_null(); });
    }
    state_.records += count;
    if (file.records_fault().empty()) return;
    CheckFinding found = at(batch.position, {batch.position.value + batch.size}, Kind::damage, file.records_fault());
    if (static_cast<std::size_t>(batch.size) > options_.inspect.largest_batch) found.kind = Kind::note;
    found.first_offset = batch.base_offset;  // a repair leaves all of it out, what comes before the fault as well
    found.last_offset = batch.last_offset;
    add(std::move(found));
  }

  // Epochs stand outside the checksum. One that is higher than those before and behind it is the odd one.
  void judge_epoch(const BatchInfo& batch) {
    if (batch.leader_epoch == no_epoch || batch.magic < 2) return;
    if (batch.leader_epoch == state_.epoch) {
      state_.epoch_is_new = false;
      return;
    }
    const auto here = at(batch.position, {batch.position.value + batch.size}, Kind::damage, {});
    const auto report = [&](CheckFinding where, const BatchInfo* range, std::int32_t epoch, std::int32_t other) {
      if (range != nullptr) {
        where.first_offset = range->base_offset;
        where.last_offset = range->last_offset;
      }
      where.reason = "its leader epoch " + std::to_string(epoch) + " does not fit: others have " + std::to_string(other);
      add(std::move(where));
    };
    if (batch.leader_epoch < no_epoch) return report(here, &batch, batch.leader_epoch, state_.epoch);
    if (batch.leader_epoch < state_.epoch) {
      if (std::exchange(state_.epoch_is_new, false) && state_.epoch_before <= batch.leader_epoch) {
        report(*state_.epoch_place, nullptr, state_.epoch, batch.leader_epoch);
        state_.epoch = batch.leader_epoch;
      } else {
        report(here, &batch, batch.leader_epoch, state_.epoch);
      }
      return;
    }
    state_.epoch_is_new = true;
    state_.epoch_before = state_.epoch;
    state_.epoch = batch.leader_epoch;
    state_.epoch_place = here;
    state_.epoch_place->first_offset = batch.base_offset;
    state_.epoch_place->last_offset = batch.last_offset;
  }

  // A batch that does not have the epoch that leader-epoch-checkpoint gives its offset: told once, and not before the next batch
  // has shown that the epoch of this one is not itself the wrong one.
  void compare_with_checkpoint(const BatchInfo& batch) {
    if (!state_.checkpoint || state_.misfit_is_told || batch.magic < 2 || batch.leader_epoch < 0) return;
    if (!state_.misfit) state_.misfit = misfit(batch);
    if (!state_.misfit || (state_.epoch_is_new && state_.misfit->first_offset == batch.base_offset)) return;
    add(*std::exchange(state_.misfit, std::nullopt));
    state_.misfit_is_told = true;
  }

  std::optional<CheckFinding> misfit(const BatchInfo& batch) const {
    const auto& checkpoint = *state_.checkpoint;
    const auto expected = checkpoint.at(batch.base_offset);
    if (expected == batch.leader_epoch) return std::nullopt;
    if (!expected && (!checkpoint.whole_from || batch.base_offset < *checkpoint.whole_from)) return std::nullopt;
    CheckFinding found{Kind::damage, checkpoint.path, {}, {}, batch.base_offset, {}, {}};
    found.reason =
        (expected ? "it gives the leader epoch " + std::to_string(*expected) : std::string("it gives no leader epoch")) +
        " where the batches have " + std::to_string(batch.leader_epoch);
    return found;
  }

  bool is_behind_gap(const BatchInfo& batch) const { return state_.next && batch.base_offset > *state_.next; }

  // Offsets between the last sound batch and this one.
  void judge_gap(const BatchInfo& batch) {
    if (!state_.next && state_.log_start && *state_.log_start < batch.base_offset) {
      const bool may_be_compacted = segment_.has_segment_before && !state_.is_dense;  // what is before is empty
      were_here_ = !may_be_compacted && around().were_here(*state_.log_start, batch.base_offset);
      if (pending_ || were_here_ || may_be_compacted) {
        state_.next = state_.log_start;
      } else {
        note_start(batch);
      }
    }
    if (!state_.next && pending_) state_.next = base_;  // of a log without a start of its own, the segment's name tells
    if (!is_behind_gap(batch)) return;
    were_here_ = were_here_ || (batch.position.value == 0 && around().index_without_segment(*state_.next, batch.base_offset));
    miss(batch.base_offset, batch.position);
    were_here_ = false;
  }

  log::PartitionDirectory around() const {
    const auto slash = segment_.path.rfind('/');
    return {slash == std::string::npos ? "." : segment_.path.substr(0, slash + 1), false};
  }

  void note_start(const BatchInfo& batch) {
    const auto range = not_listed(*state_.log_start, batch.base_offset, lost_);
    if (!range) return;
    add(at(batch.position, batch.position, Kind::note,
           "the offsets in front of it are not there: files of a broker were put here, or the first segment is missing"));
    findings_.back().first_offset = range->first;
    findings_.back().last_offset = range->second;
  }

  // The offsets from state_.next to below `next` are not there: `position` is where the log goes on.
  void miss(Offset next, Position position) {
    const auto from = std::max(*state_.next, state_.log_start.value_or(*state_.next));
    const auto range = not_listed(from, next, lost_);
    if (!range) return;
    if (pending_) {
      auto& found = findings_[*pending_];
      found.first_offset = range->first;
      found.last_offset = range->second;
      return;
    }
    CheckFinding found = at(position, position, Kind::damage, "the offsets in front of it are missing");
    found.first_offset = range->first;
    found.last_offset = range->second;
    if (state_.has_all() || were_here_) return add(std::move(found));
    const bool is_inside = position.value > 0;
    if (state_.has_holes || is_inside || !segment_.has_segment_before) return;
    found.kind = Kind::note;
    found.reason =
        "the offsets in front of it are not there: a compaction leaves such holes, and so does a segment that is missing";
    add(std::move(found));
    state_.has_holes = true;
  }

  void pass_over(const SegmentFile::Finding& finding, Kind kind) {
    auto found = at(finding.position, finding.end, kind, finding.reason);
    told_next_ = finding.next;
    if (kind == Kind::torn_tail) found.first_offset = finding.expected;
    // The next writer cuts a torn tail, and with it all that the indexes say of what is behind it.
    const auto end = kind == Kind::torn_tail ? Position{std::numeric_limits<std::int64_t>::max()} : finding.end;
    if (offsets_) offsets_->pass_over(finding.position, end);
    if (times_) times_->pass_over();
    const bool goes_on = pending_ && *pending_ + 1 == findings_.size() && findings_.back().end == finding.position &&
                         findings_.back().reason == finding.reason && findings_.back().kind == kind;
    if (goes_on) {
      before_ = findings_.back();
      findings_.back().end = finding.end;
      return;
    }
    before_.reset();
    add(std::move(found));
    pending_ = findings_.size() - 1;
  }

  // One finding for several misplaced batches in a row has the offsets of them all.
  void extend_pending() {
    if (!before_ || !before_->first_offset) return;
    auto& found = findings_.back();
    found.first_offset = std::min(*found.first_offset, *before_->first_offset);
    found.last_offset = std::max(*found.last_offset, *before_->last_offset);
  }

  void close_pending() {
    if (!pending_) return;
    auto& found = findings_[*pending_];
    if (found.kind == Kind::damage && !found.first_offset) found.reason += "; no offset is missing";
    pending_.reset();
  }

  void finish(const SegmentFile& file) {
    if (is_stopped_) return;
    const bool is_told = finish_damage();
    pending_.reset();
    if (!is_told && was_synced(end_) && *base_ == state_.synced->segment && end_ < state_.synced->position) {
      add(at(end_, end_, Kind::damage,
             "the file ends here, but " + std::to_string(state_.synced->position.value) +
                 " bytes of it were on stable storage once"));
    }
    const bool has_successor = segment_.next_base || file.has_successor();
    if (offsets_ && end_.value > 0) note_missing(offsets_->is_missing(end_.value > worth_an_index), format::index_suffix);
    if (times_ && end_.value > 0) note_missing(times_->is_missing(), format::time_index_suffix);
    if (offsets_) add_index(offsets_->finish());
    if (times_) add_index(times_->finish());
    if (end_.value == 0 && base_ && !has_successor) judge_empty_end();
  }

  void note_missing(bool is_missing, std::string_view suffix) {
    if (is_missing) add({Kind::note, sibling(segment_.path, suffix), {}, {}, {}, {}, "there is no index; --reindex makes one"});
  }

  // What is wrong reaches to the end of the file: up to the next segment all is missing, or up to what was synced. False if
  // nothing is.
  bool finish_damage() {
    if (!pending_ || findings_[*pending_].kind != Kind::damage) return false;
    auto& found = findings_[*pending_];
    auto next = segment_.next_base;
    if (!next && was_synced(*found.position)) next = state_.synced->offset;
    if (!next) next = told_next_;
    const auto from = state_.next ? state_.next : base_;
    if (next && from && *from < *next) {
      state_.next = from;
      miss(*next, end_);
      state_.next = *next;
    } else if (!next && !found.first_offset) {
      found.first_offset = from;
    }
    return true;
  }

  // The last segment is empty: the log ends where it begins, which is where the one before it ended.
  void judge_empty_end() {
    if (!state_.next || *base_ <= *state_.next) return;
    const auto from = std::max(*state_.next, state_.log_start.value_or(*state_.next));
    const auto known = state_.synced ? std::min(*base_, state_.synced->offset) : from;
    if (const auto range = not_listed(from, *base_, lost_)) {
      CheckFinding found = at({0}, {0}, Kind::note, "the segment is empty, and begins behind the end of the log");
      if (from < known && state_.has_all()) {
        found.kind = Kind::damage;
        found.reason = "the offsets in front of it are missing, though they were on stable storage once";
      }
      found.first_offset = range->first;
      found.last_offset = range->second;
      add(std::move(found));
    }
    state_.next = *base_;
  }

  CheckFinding at(Position position, Position end, Kind kind, std::string reason) const {
    return {kind, segment_.path, position, end, {}, {}, std::move(reason)};
  }
  void add(CheckFinding finding) {
    if (findings_.size() < most_findings) findings_.push_back(std::move(finding));
  }
  void add_index(std::optional<CheckFinding> finding) {
    if (!finding) return;
    const bool is_made_anew = state_.suspect && base_ && *base_ >= state_.suspect->segment;
    if (is_made_anew && finding->kind == Kind::damage) finding->kind = Kind::torn_tail;
    add(*std::move(finding));
  }

  static constexpr std::int64_t worth_an_index = 1 << 20;  // bytes that would have to be read for want of one

  const SegmentToCheck& segment_;
  LogState& state_;
  const LostRanges& lost_;
  const CheckOptions& options_;
  std::optional<Offset> base_;
  std::optional<OffsetIndexCheck> offsets_;
  std::optional<TimeIndexCheck> times_;
  std::vector<CheckFinding> findings_;
  std::optional<std::size_t> pending_;  // the last finding, as long as no sound batch has followed
  std::optional<CheckFinding> before_;  // that finding, before it was made to cover one more batch
  std::optional<Offset> told_next_;     // of what is wrong there: behind its offsets
  Position end_;
  bool were_here_ = false;  // the offsets that are missed, whatever compaction has done
  bool is_stopped_ = false;
};

}  // namespace

std::vector<CheckFinding> check_segment(const SegmentToCheck& segment, LogState& state, const LostRanges& lost,
                                        const CheckOptions& options) {
  return SegmentCheck(segment, state, lost, options).run();
}

CheckFinding unreadable_rest(const SegmentToCheck& segment, LogState& state, const std::string& reason) {
  CheckFinding found{Kind::damage, segment.path, {}, {}, {}, {}, reason};
  const auto base = format::parse_segment_file_name(segment.path.substr(segment.path.rfind('/') + 1), format::log_suffix);
  auto next = segment.next_base;
  if (!next && state.synced) next = state.synced->offset;
  if (base && next) {
    const auto from = std::max({*base, state.next.value_or(*base), state.log_start.value_or(*base)});
    if (from < *next) {
      found.first_offset = from;
      found.last_offset = *next - 1;
    }
  }
  if (segment.next_base) state.next = segment.next_base;
  return found;
}

std::optional<std::int32_t> EpochsInCheckpoint::at(Offset offset) const {
  const auto is_before = [](Offset a, const format::EpochStart& b) { return a < b.start; };
  const auto next = std::upper_bound(entries.begin(), entries.end(), offset, is_before);
  if (next == entries.begin()) return std::nullopt;
  return std::prev(next)->epoch;
}

std::string without_path(std::string_view message, std::string_view path) {
  if (!message.starts_with(path)) return std::string(message);
  message.remove_prefix(path.size());
  message.remove_prefix(std::min(message.find_first_not_of(": "), message.size()));
  return std::string(message);
}

std::optional<std::pair<Offset, Offset>> not_listed(Offset first, Offset next, const LostRanges& lost) {
  Offset last = next - 1;
  for (const auto& [from, to] : lost) {
    if (from <= first && first <= to) first = to + 1;
  }
  for (auto at = lost.rbegin(); at != lost.rend(); ++at) {
    if (at->first <= last && last <= at->second) last = at->first - 1;
  }
  if (first > last) return std::nullopt;
  return std::pair(first, last);
}

}  // namespace partlog::inspect

#include "partlog/partition_repair.h"

#include <algorithm>
#include <limits>

#include "base/time_text.h"
#include "format/checkpoint.h"
#include "format/file_names.h"
#include "inspect/index_maker.h"
#include "inspect/partition_context.h"
#include "inspect/repair_report.h"
#include "inspect/salvage.h"
#include "inspect/staging.h"
#include "inspect/unreadable.h"
#include "log/partition_directory.h"
#include "os/clock.h"
#include "os/directory.h"
#include "os/file_lock.h"

namespace partlog {

namespace {

using inspect::LostRanges;
using inspect::PartitionContext;
using inspect::Salvage;
using inspect::SegmentMaker;
using inspect::Staging;
using Kind = CheckFinding::Kind;

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The append lock, where there is one, of the directory that stands at the path.
class AppendLock {
 public:
  AppendLock(const PartitionContext& context, const RepairOptions& options) {
    const auto path = format::append_lock_path(context.directory);
    if (options.dry_run || !os::status_of(path)) return;
    const auto before = os::status_of(context.directory);
    lock_ = os::FileLock::open(path, false);
    os::LockWait wait;
    wait.timeout = options.lock_timeout;
    wait.stop = options.check.stop;
    wait.poll = context.on_network;
    guard_ = lock_->lock(wait);
    const auto now = os::status_of(context.directory);
    if (!before || !now || before->id != now->id) {
      throw Error(ErrorCode::not_found, context.directory + ": the topic was deleted meanwhile");
    }
    if (context.on_network) os::File::open(context.directory, os::File::Mode::read);
  }

  bool is_held() const { return guard_.owns(); }

 private:
  std::optional<os::FileLock> lock_;
  os::FileLock::Guard guard_;
};

class Repair {
 public:
  Repair(const std::string& directory, const RepairOptions& options, const TakeFinding& take, const TakeRepair& tell)
      : context_(inspect::context_of(directory)),
        options_(options),
        take_(take),
        tell_(tell),
        files_(directory, context_.on_network),
        staging_(directory) {}

  RepairResult run() {
    const AppendLock lock(context_, options_);
    auto finished = finish_earlier();
    if (finished && options_.dry_run) return std::move(*finished);
    context_ = inspect::context_of(context_.directory);
    const bool sync_failed = files_.sync_failed();
    if (sync_failed && !options_.dry_run) forget_cached();
    result_.before = check(take_, lock.is_held());
    if (finished && needs_no_more(sync_failed)) return std::move(*finished);
    plan();
    if (options_.dry_run || needs_no_more(sync_failed)) return told();
    if (!result_.replaced.empty() || !result_.lost.empty() || !gone_.empty() || is_bumped_) put_in_place_or_leave();
    if (sync_failed) {
      sync_all();
      files_.clear_sync_failed();
    }
    findings_.clear();
    check([](const CheckFinding&) {}, lock.is_held());
    std::copy_if(findings_.begin(), findings_.end(), std::back_inserter(result_.left), [&](const CheckFinding& finding) {
      return finding.kind == Kind::damage && finding.file != staging_.directory();
    });
    told();
    staging_.discard();
    return std::move(result_);
  }

 private:
  RepairResult told() {
    if (tell_) tell_(result_);
    return result_;
  }

  // What an interrupted repair did, which is told like any other.
  std::optional<RepairResult> finish_earlier() {
    if (options_.dry_run && !staging_.is_abandoned()) return std::nullopt;
    const auto left = options_.dry_run ? staging_.unfinished() : staging_.recover();
    if (!left) return std::nullopt;
    auto result = inspect::parse_repair_report(left->report, context_.directory);
    result.kept_in = left->kept;
    take_({result.before == Verdict::damaged ? Kind::damage : Kind::torn_tail,
           staging_.directory(),
           {},
           {},
           {},
           {},
           options_.dry_run ? "a repair was interrupted; this is what finishing it does"
                            : "a repair was interrupted; it is finished now, and this is what it did"});
    if (tell_) tell_(result);
    if (!options_.dry_run) staging_.discard();
    return result;
  }

  bool needs_no_more(bool sync_failed) const { return result_.before == Verdict::clean && !sync_failed; }

  Verdict check(const TakeFinding& take, bool alone) {
    auto how = options_.check;
    how.alone = alone;
    const auto keep = [&](const CheckFinding& finding) {
      findings_.push_back(finding);
      take(finding);
    };
    const auto verdict = check_partition(context_.directory, how, keep).verdict;
    if (how.stop != nullptr && how.stop->load()) throw Error(ErrorCode::interrupted, context_.directory + ": interrupted");
    return verdict;
  }

  // What stands in this host's memory may never have reached the device; what cannot be written now is lost as well.
  void forget_cached() const {
    for (const auto& segment : segment_paths(context_.directory)) {
      auto file = log::open_batches(segment.path, os::File::Mode::read);
      file.sync_data();
      file.drop_cached();
    }
  }

  void sync_all() const {
    for (const auto& segment : segment_paths(context_.directory)) os::File::open(segment.path, os::File::Mode::read).sync_data();
    os::sync_directory(context_.directory);
  }

  // What else has the name of a segment may be anything: whoever put it there moves it away.
  void require_files() const {
    for (const auto& segment : segment_paths(context_.directory)) log::open_batches(segment.path, os::File::Mode::read);
  }

  bool is_damaged(std::string_view name) const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const CheckFinding& finding) {
      return finding.kind == Kind::damage && name_of(finding.file) == name;
    });
  }

  bool concerns_segments() const {
    return std::any_of(findings_.begin(), findings_.end(), [](const CheckFinding& finding) {
      return finding.kind != Kind::note && finding.file.ends_with(format::log_suffix);
    });
  }

  // What is to be replaced, and what is lost.
  void plan() {
    state_ = context_.start();
    if (concerns_segments()) {
      require_files();
      if (result_.before == Verdict::damaged) state_.suspect.reset();  // all that is whole is saved
      salvage_ = inspect::survey(context_, state_, missing(), !is_damaged("leader-epoch-checkpoint"), options_.check);
      for (std::size_t i = salvage_.segments.size(); i-- > 0;) {
        if (!SegmentMaker(salvage_, i).is_right()) segments_.push_back(i);
      }
      find_gone();
      find_lost();
    }
    for (const auto i : segments_) result_.replaced.push_back(name_of(salvage_.segments[i].path));
    for (const auto& name : gone_) {
      if (name.ends_with(format::log_suffix)) result_.replaced.push_back(name);
    }
    if (is_synced_behind_end()) result_.replaced.emplace_back("recovery-point");
    for (const auto& finding : findings_) {
      if (finding.kind != Kind::note && !finding.file.ends_with(format::log_suffix)) plan_small(name_of(finding.file));
    }
    if (!result_.lost.empty() || result_.list_is_new) result_.list = format::lost_offsets_path(context_.directory);
  }

  // Where the check says that something is missing, as far as it tells where that ends.
  LostRanges missing() const {
    LostRanges ranges;
    for (const auto& finding : findings_) {
      if (finding.kind == Kind::damage && finding.first_offset && finding.last_offset &&
          *finding.first_offset <= *finding.last_offset)
        ranges.emplace_back(*finding.first_offset, *finding.last_offset);
    }
    return inspect::merged(std::move(ranges));
  }

  // Segments whose name is wrong, with their indexes, and indexes that have lost theirs.
  void find_gone() {
    constexpr Offset no_offset{std::numeric_limits<std::int64_t>::max()};
    for (const auto& source : salvage_.sources) set_aside(source.base);
    auto alone = files_.index_without_segment({}, no_offset);
    while (alone) {
      set_aside(*alone);
      alone = files_.index_without_segment(*alone + 1, no_offset);
    }
  }

  // Unless a segment will stand there.
  void set_aside(Offset base) {
    const bool stays = std::any_of(salvage_.segments.begin(), salvage_.segments.end(),
                                   [&](const SegmentPath& segment) { return segment.base == base; });
    if (stays) return;
    const log::SegmentFiles files{context_.directory, base};
    for (const auto& path : {files.log(), files.index(), files.time_index()}) {
      if (const auto status = os::status_of(path); status && status->is_regular) gone_.push_back(name_of(path));
    }
  }

  void find_lost() {
    auto candidates = salvage_.dropped;
    if (salvage_.has_all && !salvage_.runs.empty()) {
      auto first = salvage_.runs.front().start();
      if (state_.log_start) first = std::min(first, *state_.log_start);
      candidates.emplace_back(first, salvage_.runs.back().stop() - 1);
    }
    for (const auto& finding : findings_) {
      if (finding.kind != Kind::damage || !finding.first_offset || !finding.file.ends_with(format::log_suffix)) continue;
      const auto last = finding.last_offset.value_or(salvage_.end - 1);
      if (*finding.first_offset <= last && last < salvage_.end) candidates.emplace_back(*finding.first_offset, last);
    }
    const auto taken = inspect::covered(salvage_.runs);
    const auto end = taken.empty() ? salvage_.segments.back().base : taken.back().second + 1;
    if (context_.is_ours && end < salvage_.end)
      candidates.emplace_back(std::max(end, salvage_.segments.front().base), salvage_.end - 1);
    result_.lost = inspect::without(inspect::without(inspect::merged(std::move(candidates)), taken), context_.lost);
    // Offsets that were lost at the end may have been told to somebody: the next append goes behind them.
    is_bumped_ = context_.is_ours && end < salvage_.end && salvage_.end > salvage_.segments.back().base;
    if (is_bumped_) result_.end = salvage_.end;
  }

  // The recovery point names a place that is not there, though nothing else is wrong with its segment.
  bool is_synced_behind_end() const {
    for (std::size_t i = 0; i < salvage_.sources.size() && state_.synced; ++i) {
      if (salvage_.sources[i].base == state_.synced->segment) return state_.synced->position.value > salvage_.sizes[i];
    }
    return false;
  }

  // A small file that is damaged, where what it should say is known.
  void plan_small(const std::string& name) {
    if (name == name_of(format::lost_offsets_path(context_.directory))) {
      result_.list_is_new = true;
      result_.replaced.push_back(name);
      return;
    }
    const auto text = text_for(name);
    const bool is_index = name.ends_with("index") && !name.ends_with(".txnindex");
    if (!text && !is_index) return;
    auto& replaced = result_.replaced;
    if (std::find(replaced.begin(), replaced.end(), name) == replaced.end()) replaced.push_back(name);
    if (text) texts_.emplace_back(name, *text);
    if (is_index) indexes_.push_back(name);
  }

  std::vector<SegmentPath> segments_to_be() const {
    return salvage_.segments.empty() ? segment_paths(context_.directory) : salvage_.segments;
  }

  bool is_readable(const std::string& name) const {
    return inspect::unless_unreadable([&] { return os::read_file(context_.directory + '/' + name, std::size_t{1} << 30); })
        .has_value();
  }

  std::optional<std::string> text_for(const std::string& name) {
    if (!context_.is_ours) return std::nullopt;
    if (name == "partition.metadata" && !context_.topic_id.empty()) return format::format_partition_metadata(context_.topic_id);
    if (name == "log-start-offset") return format::format_log_start_offset(segments_to_be().front().base);
    // Written in any case, and from the segments as they are by then.
    if (name == "recovery-point" || name == "leader-epoch-checkpoint") return std::string();
    return std::nullopt;
  }

  std::vector<format::EpochStart> epochs_in_log() const {
    std::vector<format::EpochStart> epochs;
    for (const auto& segment : segments_to_be()) {
      const auto staged = staging_.path(name_of(segment.path));
      SegmentFile file(os::status_of(staged) ? staged : segment.path);
      for (auto step = file.next(); step != SegmentFile::Step::end && step != SegmentFile::Step::torn_tail; step = file.next()) {
        if (step != SegmentFile::Step::batch || !file.finding().reason.empty()) continue;
        const auto& batch = file.batch();
        if (batch.leader_epoch >= 0 && (epochs.empty() || batch.leader_epoch > epochs.back().epoch)) {
          epochs.push_back({batch.leader_epoch, batch.base_offset});
        }
      }
    }
    if (epochs.empty()) epochs.push_back({0, {0}});
    return epochs;
  }

  // What failed (no space, say) leaves nothing behind, if that can be helped.
  void put_in_place_or_leave() {
    try {
      put_in_place();
    } catch (const Error&) {
      try {
        staging_.recover();
      } catch (const Error&) {
        // For the next repair.
      }
      throw;
    }
  }

  void put_in_place() {
    staging_.begin();
    std::vector<std::string> names;
    if (is_bumped_) {
      names.push_back(format::segment_file_name(salvage_.end, format::log_suffix));
      staging_.write(names.back(), {});
    }
    for (const auto i : segments_) stage_segment(i, names);
    if (!result_.list.empty()) {
      names.push_back(name_of(result_.list));
      staging_.write(names.back(), list_of_lost());
    }
    for (const auto& [name, text] : texts_) {
      if (name == "recovery-point") continue;
      names.push_back(name);
      staging_.write(name, name == "leader-epoch-checkpoint" ? format::format_leader_epochs(epochs_in_log()) : text);
    }
    std::vector<std::string> open;
    for (const auto& name : indexes_) stage_index(name, names, open);
    if (context_.is_ours || state_.synced) stage_recovery_point(names);
    if (!names.empty() || !open.empty() || !gone_.empty())
      result_.kept_in = staging_.commit(names, open, gone_, inspect::format_repair_report(result_));
  }

  void stage_segment(std::size_t number, std::vector<std::string>& names) {
    const auto& segment = salvage_.segments[number];
    const auto name = name_of(segment.path);
    SegmentMaker(salvage_, number).write(staging_.path(name), options_.check.inspect);
    const bool is_closed = !context_.is_ours || number + 1 < salvage_.segments.size() || is_bumped_;
    const log::SegmentFiles files{staging_.directory(), segment.base};
    inspect::make_indexes(files.log(), files, context_.index_interval_bytes, is_closed);
    names.push_back(name);
    names.push_back(name_of(files.index()));
    names.push_back(name_of(files.time_index()));
  }

  std::string list_of_lost() const {
    auto all = result_.list_is_new ? std::vector<format::LostOffsets>{} : files_.lost_offsets();
    const auto now = iso_time(os::clock().now());
    for (const auto& [first, last] : result_.lost) all.push_back({first, last, now});
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string text;
    for (const auto& range : all) text += format::format_lost_offsets(range);
    return text;
  }

  // Everything up to the end is synced by now, and the segment may have become shorter than the old one says.
  void stage_recovery_point(std::vector<std::string>& names) {
    sync_all();
    const auto segments = segments_to_be();
    auto last = segments.back();
    if (is_bumped_) last = {staging_.path(format::segment_file_name(salvage_.end, format::log_suffix)), salvage_.end};
    const auto staged = staging_.path(name_of(last.path));
    const auto path = os::status_of(staged) ? staged : last.path;
    Offset end = last.base;
    std::int64_t position = 0;
    SegmentFile file(path);
    for (auto step = file.next(); step == SegmentFile::Step::batch; step = file.next()) {
      end = file.batch().next_offset();
      position = file.batch().position.value + file.batch().size;
    }
    names.emplace_back("recovery-point");
    staging_.write(names.back(), files_.recovery_point_text(end, last.base, position));
  }

  // The other index of the segment is made with it, and left out: nothing is wrong with that one. Of a log that goes on, writers
  // have it open, unless something else stands in its place.
  void stage_index(const std::string& name, std::vector<std::string>& names, std::vector<std::string>& open) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;  // with its segment
    if (std::find(gone_.begin(), gone_.end(), name) != gone_.end()) return;
    const auto suffix = name.ends_with(format::index_suffix) ? format::index_suffix : format::time_index_suffix;
    const auto base = format::parse_segment_file_name(name, suffix);
    if (!base) return;
    const bool is_closed = !context_.is_ours || is_bumped_ || segments_to_be().back().base > *base;
    const log::SegmentFiles made{staging_.directory(), *base};
    const log::SegmentFiles files{context_.directory, *base};
    if (!os::status_of(files.log())) return;
    inspect::make_indexes(files.log(), made, context_.index_interval_bytes, is_closed);
    (is_closed || !is_readable(name) ? names : open).push_back(name);
  }

  PartitionContext context_;
  const RepairOptions& options_;
  const TakeFinding& take_;
  const TakeRepair& tell_;
  log::PartitionDirectory files_;
  Staging staging_;
  RepairResult result_;
  std::vector<CheckFinding> findings_;
  inspect::LogState state_;
  Salvage salvage_;
  std::vector<std::size_t> segments_;  // those to be written anew, the last one first
  std::vector<std::string> gone_;      // files to be taken away
  std::vector<std::pair<std::string, std::string>> texts_;
  std::vector<std::string> indexes_;
  bool is_bumped_ = false;  // the log goes on in a new segment, behind what was lost at the end
};

class Reindex {
 public:
  Reindex(const std::string& directory, const RepairOptions& options)
      : context_(inspect::context_of(directory)), options_(options), staging_(directory) {}

  RepairResult run() {
    const AppendLock lock(context_, options_);
    const auto segments = segment_paths(context_.directory);
    if (segments.empty()) throw Error(ErrorCode::not_found, "no segments in " + context_.directory);
    if ((lock.is_held() || staging_.is_abandoned()) && staging_.unfinished()) {
      throw Error(ErrorCode::damaged, staging_.directory() + ": a repair was interrupted; --repair finishes it");
    }
    if (options_.dry_run) {
      compare_all(segments);
      return std::move(result_);
    }
    staging_.begin();
    for (std::size_t i = 0; i < segments.size(); ++i) {
      // A broker that has stopped has closed the last one, too.
      make(segments[i], !context_.is_ours || i + 1 < segments.size());
    }
    staging_.discard();
    return std::move(result_);
  }

 private:
  using Contents = std::optional<std::string>;

  // Without writing in the partition directory: they are made in another one.
  void compare_all(const std::vector<SegmentPath>& segments) {
    const os::TemporaryDirectory made;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const bool is_last = i + 1 == segments.size();
      // A writer may have its data in the log already, and not in the indexes yet.
      bool is_first_look = is_last && context_.is_ours;
      while (!compare(segments[i], made.path(), !context_.is_ours || !is_last, is_first_look)) is_first_look = false;
    }
  }

  // Names what is not right, unless it may be right with another look: false then. What was appended while the new ones were made
  // may be in the old ones.
  bool compare(const SegmentPath& segment, const std::string& scratch, bool is_closed, bool may_change) {
    const log::SegmentFiles made{scratch, segment.base};
    const log::SegmentFiles files{context_.directory, segment.base};
    const auto index = contents(files.index());
    const auto time_index = contents(files.time_index());
    inspect::make_indexes(segment.path, made, context_.index_interval_bytes, is_closed);
    const bool is_right = lies_between(contents(made.index()), index, contents(files.index()));
    const bool is_time_right = lies_between(contents(made.time_index()), time_index, contents(files.time_index()));
    os::remove_file(made.index());
    os::remove_file(made.time_index());
    if (may_change && (!is_right || !is_time_right)) return false;
    if (!is_right) result_.replaced.push_back(name_of(files.index()));
    if (!is_time_right) result_.replaced.push_back(name_of(files.time_index()));
    return true;
  }

  static bool lies_between(const Contents& made, const Contents& before, const Contents& after) {
    return made && before && after && made->starts_with(*before) && after->starts_with(*made);
  }

  void make(const SegmentPath& segment, bool is_closed) {
    const log::SegmentFiles made{staging_.directory(), segment.base};
    const log::SegmentFiles files{context_.directory, segment.base};
    inspect::make_indexes(segment.path, made, context_.index_interval_bytes, is_closed);
    const bool is_same = same(made.index(), files.index());
    const bool is_time_same = same(made.time_index(), files.time_index());
    if (!is_same) put_in_place(name_of(files.index()), is_closed);
    if (!is_time_same) put_in_place(name_of(files.time_index()), is_closed);
    if (!is_same || !is_time_same) os::sync_directory(context_.directory);
  }

  void put_in_place(const std::string& name, bool is_closed) {
    const bool is_open = context_.is_ours && !is_closed;  // by writers
    is_open ? staging_.overwrite(name) : staging_.replace(name);
    result_.replaced.push_back(name);
  }

  static Contents contents(const std::string& path) { return os::read_file(path, std::size_t{1} << 30); }
  static bool same(const std::string& one, const std::string& other) { return contents(one) == contents(other); }

  PartitionContext context_;
  const RepairOptions& options_;
  Staging staging_;
  RepairResult result_;
};

}  // namespace

RepairResult repair_partition(const std::string& directory, const RepairOptions& options, const TakeFinding& take,
                              const TakeRepair& tell) {
  return Repair(directory, options, take, tell).run();
}

RepairResult rebuild_indexes(const std::string& directory, const RepairOptions& options) {
  return Reindex(directory, options).run();
}

}  // namespace partlog

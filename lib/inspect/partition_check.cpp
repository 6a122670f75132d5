#include "partlog/partition_check.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "format/checkpoint.h"
#include "format/file_names.h"
#include "inspect/partition_context.h"
#include "inspect/segment_check.h"
#include "inspect/side_check.h"
#include "inspect/staging.h"
#include "inspect/unreadable.h"
#include "log/partition_directory.h"
#include "os/directory.h"
#include "os/file.h"
#include "partlog/group.h"
#include "partlog/side_file.h"

namespace partlog {

namespace {

using inspect::LogState;
using inspect::PartitionContext;
using Findings = std::vector<CheckFinding>;
using Kind = CheckFinding::Kind;

constexpr std::size_t most_epochs = 1'000'000;  // held to compare with
constexpr auto before_looking_again = std::chrono::milliseconds(20);

bool is_alarm(const CheckFinding& finding) { return finding.kind != Kind::note; }

bool is_same(const CheckFinding& a, const CheckFinding& b) {
  return a.kind == b.kind && a.file == b.file && a.position == b.position && a.reason == b.reason;
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

// What another host wrote shows on a network file system once directory and file are opened anew, their pages dropped.
void see_anew(const std::string& directory, const Findings& found) {
  try {
    const auto opened = os::File::open(directory, os::File::Mode::read);
    for (const auto& finding : found) {
      if (!finding.file.empty()) os::File::open(finding.file, os::File::Mode::read).drop_cached();
    }
  } catch (const Error&) {
    // It is gone: so much for the finding.
  }
}

// What `look` finds, but of damage and torn tails only what it finds twice: others may be at work in the directory.
template <class Look>
Findings settled(const PartitionContext& context, bool alone, Look look) {
  Findings first = look();
  if (alone || std::none_of(first.begin(), first.end(), is_alarm)) return first;
  std::this_thread::sleep_for(before_looking_again);
  if (context.on_network) see_anew(context.directory, first);
  Findings again = look();
  std::erase_if(again, [&](const CheckFinding& finding) {
    return is_alarm(finding) &&
           std::none_of(first.begin(), first.end(), [&](const CheckFinding& other) { return is_same(finding, other); });
  });
  return again;
}

class Report {
 public:
  explicit Report(const TakeFinding& take) : take_(take) {}

  void give(const Findings& findings) {
    for (const auto& finding : findings) {
      const auto verdict = finding.kind == Kind::damage      ? Verdict::damaged
                           : finding.kind == Kind::torn_tail ? Verdict::torn_tail
                                                             : Verdict::clean;
      result.verdict = std::max(result.verdict, verdict);
      if (finding.kind == Kind::damage && finding.last_offset) told = std::max(told, *finding.last_offset);
      take_(finding);
    }
  }

  CheckResult result;
  Offset told{-1};  // the last offset that is known to be damaged or missing

 private:
  const TakeFinding& take_;
};

class PartitionCheck {
 public:
  PartitionCheck(const std::string& directory, const CheckOptions& options, const TakeFinding& take)
      : context_(inspect::context_of(directory)), options_(options), report_(take) {}

  CheckResult run() {
    state_ = context_.start();
    synced_ = state_.synced;  // before the segments are listed: others are made meanwhile
    const auto segments = segment_paths(context_.directory);
    if (segments.empty()) throw Error(ErrorCode::not_found, "no segments in " + context_.directory);
    for (std::size_t i = 0; i < segments.size() && !is_stopped(); ++i) {
      if (i > 0 && is_left_by_restart(segments[i])) break;
      last_path_ = segments[i].path;
      last_base_ = segments[i].base;
      const bool is_last = i + 1 == segments.size();
      check_segment({segments[i].path, is_last ? std::nullopt : std::optional(segments[i + 1].base), i > 0});
    }
    auto& result = report_.result;
    result.segments = segments.size();
    if (!is_stopped()) check_rest();
    result.batches = state_.batches;
    result.records = state_.records;
    result.first_offset = state_.first;
    result.end = state_.end;
    return result;
  }

 private:
  bool is_stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  // Behind the recovery point of another boot the log ends where a segment was cut, or the next one does not follow on.
  bool is_left_by_restart(const SegmentPath& segment) {
    if (!state_.suspect) return false;
    const auto found = settled(context_, options_.alone, [&]() -> Findings {
      const auto suspect = context_.start().suspect;
      const auto status = os::status_of(segment.path);
      if (!suspect || !status || segment.base <= suspect->segment) return {};
      if (!is_cut_ && segment.base == state_.next.value_or(suspect->offset)) return {};
      return {{Kind::torn_tail,
               segment.path,
               Position{0},
               Position{status->size},
               segment.base,
               {},
               "the host has restarted, and it does not go on where the log ends; the next writer sets it aside"}};
    });
    report_.give(found);
    return !found.empty();
  }

  void check_segment(const inspect::SegmentToCheck& segment) {
    const LogState before = state_;
    const auto found = settled(context_, options_.alone, [&]() -> Findings {
      const auto anew = context_.start();
      state_ = before;
      state_.synced = anew.synced;  // a writer may have cut a tail, and moved the point back
      state_.suspect = anew.suspect;
      state_.log_start = anew.log_start;
      state_.checkpoint = checkpoint();  // writers begin a new epoch there first
      try {
        return inspect::check_segment(segment, state_, context_.lost, options_);
      } catch (const Error& error) {
        const bool is_there = os::status_of_link(segment.path).has_value();
        const bool is_dangling = is_there && error.code() == ErrorCode::not_found;
        if (is_there && !is_dangling && !inspect::is_unreadable(error)) throw;
        if (is_there) return {inspect::unreadable_rest(segment, state_, error.what())};
        state_.next.reset();
        return {};  // retention, or a compaction, has taken it away
      }
    });
    report_.give(found);
    is_cut_ = std::any_of(found.begin(), found.end(),
                          [&](const CheckFinding& one) { return one.kind == Kind::torn_tail && one.file == segment.path; });
  }

  void check_rest() {
    report_.give(settled(context_, options_.alone, [&] { return of_the_whole(); }));
    auto names = os::list_directory(context_.directory);
    std::sort(names.begin(), names.end());
    for (const auto& name : names) {
      const auto path = context_.directory + (context_.directory.ends_with('/') ? "" : "/") + name;
      if (is_side_file(path)) report_.give(settled(context_, options_.alone, [&] { return side_file(path); }));
    }
  }

  static bool is_side_file(const std::string& path) {
    for (const std::string_view mark : {".deleted", ".cleaned", ".swap", ".tmp"}) {
      if (path.ends_with(mark)) return false;
    }
    const auto kind = file_kind(path);
    if (kind == FileKind::unknown || kind == FileKind::batches || kind == FileKind::json) return false;
    if (kind == FileKind::offset_index || kind == FileKind::time_index) return false;  // with their segment
    return os::status_of_link(path).has_value();  // whatever it is: what cannot be read is told
  }

  static Findings side_file(const std::string& path) {
    try {
      return inspect::check_side_file(path, file_kind(path));
    } catch (const Error& error) {
      if (error.code() == ErrorCode::not_found) return {};  // replaced, or on its way out
      if (!inspect::is_unreadable(error)) throw;
      return {{Kind::damage, path, {}, {}, {}, {}, error.what()}};
    }
  }

  // The log as a whole against the small files.
  Findings of_the_whole() {
    Findings found;
    const auto& directory = context_.directory;
    if (!options_.alone && inspect::Staging(directory).is_abandoned()) {
      found.push_back(
          {Kind::damage, format::repair_path(directory), {}, {}, {}, {}, "a repair was interrupted; --repair finishes it"});
    }
    check_end(found);
    if (context_.is_ours) {
      check_metadata(found);
      if (log::PartitionDirectory(directory, context_.on_network).sync_failed()) {
        found.push_back({Kind::damage,
                         format::sync_failed_path(directory),
                         {},
                         {},
                         {},
                         {},
                         "a sync failed, so that it is not known what the device holds; --repair reads it back"});
      }
    }
    check_epochs(found);
    return found;
  }

  // The end against what was on stable storage when the check began, unless the log has been cut behind a restart since.
  void check_end(Findings& found) const {
    const auto now = context_.start();
    const auto empty_at = context_.is_ours ? now.log_start : std::nullopt;  // what is below has expired
    const auto known_end = state_.next ? state_.next : empty_at;
    const auto end = known_end.value_or(Offset{0});
    if (!context_.is_ours && !now.synced) check_for_last_segment(found, end);
    const auto last = synced_ && now.synced ? std::min(synced_->offset, now.synced->offset) : end;
    if (known_end && end < last) {
      if (const auto range = inspect::not_listed(end, last, context_.lost); range && report_.told < range->second) {
        found.push_back({Kind::damage,
                         last_path_,
                         {},
                         {},
                         range->first,
                         range->second,
                         "the log ends with the offset before, though these were on stable storage once"});
      }
    }
    if (now.log_start && state_.next && starts_behind(end)) {
      found.push_back({Kind::damage,
                       format::log_start_offset_path(context_.directory),
                       {},
                       {},
                       {},
                       {},
                       "the log start offset " + std::to_string(now.log_start->value) + " is behind the end offset " +
                           std::to_string(end.value)});
    }
  }

  // Of a directory that does not say what was in it.
  void check_for_last_segment(Findings& found, Offset end) const {
    const log::PartitionDirectory files(context_.directory, context_.on_network);
    const auto gone = files.missing_end(last_base_);
    if (!gone) return;
    const auto range = inspect::not_listed(std::min(end, gone->first), gone->second + 1, context_.lost);
    if (!range) return;
    found.push_back({Kind::damage, files.segment(gone->first).log(), {}, {}, range->first, range->second, log::index_is_left});
  }

  bool starts_behind(Offset end) const {
    return log::PartitionDirectory(context_.directory, context_.on_network).starts_behind(end);
  }

  void check_metadata(Findings& found) const {
    const auto path = format::partition_metadata_path(context_.directory);
    try {
      const auto text = os::read_file(path);
      if (!text || context_.topic_id.empty()) return;
      const auto id = format::parse_partition_metadata(*text, path);
      if (id == context_.topic_id) return;
      found.push_back({Kind::damage, path, {}, {}, {}, {}, "the topic id " + id + " is not the topic's, " + context_.topic_id});
    } catch (const Error& error) {
      if (!inspect::is_unreadable(error)) throw;  // told with the file
    }
  }

  // None if there is nothing to compare with: what is wrong with the file itself is told with it.
  std::shared_ptr<const inspect::EpochsInCheckpoint> checkpoint() const {
    inspect::EpochsInCheckpoint found{format::leader_epoch_checkpoint_path(context_.directory), {}, {}};
    bool is_right = true;
    try {
      if (!os::status_of(found.path)) return nullptr;
      const auto fault = read_leader_epochs(found.path, [&](const EpochEntry& entry) {
        auto& entries = found.entries;
        is_right = is_right && entries.size() < most_epochs &&
                   (entries.empty() || (entries.back().epoch < entry.epoch && entries.back().start <= entry.start_offset));
        if (is_right) entries.push_back({entry.epoch, entry.start_offset});
      });
      is_right = is_right && !fault;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::not_found && !inspect::is_unreadable(error)) throw;
      return nullptr;
    }
    if (!is_right || found.entries.empty()) return nullptr;
    // A broker raises the first entry to the log start offset, which it does not keep in the directory.
    if (context_.is_ours) found.whole_from = context_.start().log_start;
    return std::make_shared<const inspect::EpochsInCheckpoint>(std::move(found));
  }

  // What no batch behind it has shown: the last one has an epoch of its own, which the checkpoint gives it not. If it is above
  // all that the checkpoint knows, it is the batch that is wrong.
  void check_epochs(Findings& found) const {
    const auto known = checkpoint();
    if (!known) return;
    const auto last = known->entries.back();
    if (state_.next && last.start > *state_.next && !state_.misfit_is_told) {
      found.push_back({Kind::note, known->path, {}, {}, {}, {}, "its last entry begins behind the end of the log"});
      found.back().reason += ", with offset " + std::to_string(last.start.value);
    }
    if (!state_.misfit || state_.misfit_is_told) return;
    if (state_.epoch <= last.epoch || !state_.epoch_place) return found.push_back(*state_.misfit);
    auto finding = *state_.epoch_place;
    finding.reason = "its leader epoch " + std::to_string(state_.epoch) + " is above the last one of leader-epoch-checkpoint, " +
                     std::to_string(last.epoch);
    found.push_back(std::move(finding));
  }

  PartitionContext context_;
  const CheckOptions& options_;
  Report report_;
  LogState state_;
  std::optional<format::RecoveryPoint> synced_;
  std::string last_path_;
  Offset last_base_;
  bool is_cut_ = false;  // the segment before has a torn tail
};

class FileCheck {
 public:
  FileCheck(const std::string& path, const CheckOptions& options, const TakeFinding& take)
      : path_(path), context_(inspect::context_of(directory_of(path))), options_(options), report_(take) {}

  CheckResult run() {
    auto kind = file_kind(path_);
    if (kind == FileKind::unknown && begins_with_batch()) kind = FileKind::batches;
    if (kind == FileKind::unknown) {
      throw Error(ErrorCode::refused,
                  "what kind of file " + path_ + " is does not follow from its name, and no batch stands in it");
    }
    if (kind == FileKind::batches) {
      check_segment(path_, false);
    } else if (const auto log = log_of_index(kind); !log.empty()) {
      check_segment(log, true);
    } else {
      report_.give(settled(context_, options_.alone, [&] { return inspect::check_side_file(path_, kind); }));
    }
    return report_.result;
  }

 private:
  bool begins_with_batch() const {
    SegmentFile file(path_);
    return file.next() == SegmentFile::Step::batch;
  }

  // The segment that an index belongs to, if it is there.
  std::string log_of_index(FileKind kind) const {
    const auto suffix = kind == FileKind::offset_index ? format::index_suffix : format::time_index_suffix;
    if ((kind != FileKind::offset_index && kind != FileKind::time_index) || !path_.ends_with(suffix)) return {};
    auto log = path_.substr(0, path_.size() - suffix.size()).append(format::log_suffix);
    return os::status_of(log) ? log : std::string();
  }

  void check_segment(const std::string& log, bool index_only) {
    LogState state;
    report_.give(settled(context_, options_.alone, [&] {
      state = context_.start();
      state.log_start.reset();  // of a log of which only one file is looked at
      auto found = inspect::check_segment({log, next_base(log), false}, state, context_.lost, options_);
      if (index_only) std::erase_if(found, [&](const CheckFinding& finding) { return finding.file != path_; });
      return found;
    }));
    if (index_only) return;
    report_.result.segments = 1;
    report_.result.batches = state.batches;
    report_.result.records = state.records;
    report_.result.first_offset = state.first;
    report_.result.end = state.end;
  }

  static std::optional<Offset> next_base(const std::string& log) {
    const auto name = log.substr(log.rfind('/') + 1);
    const auto base = format::parse_segment_file_name(name, format::log_suffix);
    if (!base) return std::nullopt;
    try {
      for (const auto& other : segment_paths(directory_of(log))) {
        if (other.base > *base) return other.base;
      }
    } catch (const Error&) {
      // A directory that may not be listed.
    }
    return std::nullopt;
  }

  const std::string& path_;
  PartitionContext context_;
  const CheckOptions& options_;
  Report report_;
};

// What cannot be read is told with the file or directory that is named as the reason.
Findings check_group_position(const Store& store, const std::string& name, const Topic& topic, int partition, Offset end) {
  Findings found;
  const auto directory = format::group_path(store.directory(), name);
  auto path = format::offset_file_path(directory, topic.name, partition);
  const auto tell = [&](Kind kind, const std::string& reason) {
    found.push_back({kind, path, {}, {}, {}, {}, "group \"" + name + "\": " + reason});
  };
  try {
    const auto at = Group::open(store, name).position(store, topic, partition);
    if (!at) return found;
    const auto offset = "the position " + std::to_string(at->offset.value);
    if (at->state == GroupPosition::State::past_end) {
      end = std::max(end, at->end);
      if (at->offset <= end) return found;
      tell(Kind::damage, offset + " is past the end offset " + std::to_string(end.value));
      found.back().group = name;
    } else if (at->state == GroupPosition::State::below_start) {
      tell(Kind::note, offset + " is below the log start offset " + std::to_string(at->start.value));
    } else if (at->state == GroupPosition::State::cut) {
      tell(Kind::note, "the position " + std::to_string(at->committed.value) +
                           " was cut off with the end of the log: it goes on at " + std::to_string(at->offset.value));
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) return found;  // group or topic is gone
    if (!inspect::is_unreadable(error)) throw;
    const std::string_view what = error.what();
    if (what.find(directory) == std::string_view::npos) return found;  // of the log, whose files are looked at by themselves
    while (what.find(path) == std::string_view::npos) path.resize(path.rfind('/'));
    tell(Kind::damage, inspect::without_path(what, path));
  }
  return found;
}

Findings names_of_groups(const Store& store, std::vector<std::string>& groups) {
  try {
    groups = Group::names(store);
    return {};
  } catch (const Error& error) {
    if (!inspect::is_unreadable(error)) throw;
    return {{Kind::damage, format::groups_path(store.directory()), {}, {}, {}, {}, error.what()}};
  }
}

}  // namespace

CheckResult check_partition(const std::string& directory, const CheckOptions& options, const TakeFinding& take) {
  return PartitionCheck(directory, options, take).run();
}

CheckResult check_file(const std::string& path, const CheckOptions& options, const TakeFinding& take) {
  return FileCheck(path, options, take).run();
}

Verdict check_group_positions(const Store& store, const Topic& topic, int partition, const TakeFinding& take, Offset end) {
  Report report(take);
  PartitionContext context;
  context.directory = partition_directory(topic.directory, partition);
  context.on_network = store.on_network();
  std::vector<std::string> groups;
  report.give(settled(context, false, [&] { return names_of_groups(store, groups); }));
  for (const auto& name : groups) {
    report.give(settled(context, false, [&] { return check_group_position(store, name, topic, partition, end); }));
  }
  return report.result.verdict;
}

}  // namespace partlog

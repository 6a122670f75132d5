// Checks one file of batches with its indexes, knowing what stood in the segments before it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/checkpoint.h"
#include "partlog/partition_check.h"

namespace partlog::inspect {

// leader-epoch-checkpoint, whose entries rise.
struct EpochsInCheckpoint {
  std::string path;
  std::vector<format::EpochStart> entries;
  std::optional<Offset> whole_from;  // there is an entry for each batch from here on

  // For a batch that begins with the offset.
  std::optional<std::int32_t> at(Offset offset) const;
};

// What the log says up to some point, and what is known of it from elsewhere. Small: copied, to look at a segment again.
struct LogState {
  bool is_dense = false;                        // the topic is not compacted, as far as its properties tell
  bool is_keyless = false;                      // a record without a key was seen, so that no compaction has been behind it
  bool has_holes = false;                       // a compaction has been here, perhaps under other properties
  std::optional<Offset> log_start;              // what lies below is of no interest
  std::optional<format::RecoveryPoint> synced;  // what was on stable storage when the check began
  // The same, if the host has restarted since: behind it anything may be missing, and the next writer makes it whole.
  std::optional<format::RecoveryPoint> suspect;

  std::optional<Offset> next;  // behind the last sound batch
  std::optional<Offset> first;
  Offset end;                               // behind the last sound batch, whatever is empty behind it
  std::int32_t epoch = no_epoch;            // of the last sound batch,
  std::int32_t epoch_before = no_epoch;     // of the one before it with another epoch
  std::optional<CheckFinding> epoch_place;  // where that one began
  bool epoch_is_new = false;                // with the last batch

  std::shared_ptr<const EpochsInCheckpoint> checkpoint;  // none: not to be compared
  std::optional<CheckFinding> misfit;                    // the last batch has another epoch than the checkpoint says, and is the
                                                         // first that does: it may be the batch that is wrong
  bool misfit_is_told = false;

  std::uint64_t batches = 0;
  std::uint64_t records = 0;

  // Whether offsets that are not there are missing.
  bool has_all() const { return (is_dense || is_keyless) && !has_holes; }
};

// Offsets that a repair has written down as lost, by ascending first ones, apart from each other.
using LostRanges = std::vector<std::pair<Offset, Offset>>;

struct SegmentToCheck {
  std::string path;
  std::optional<Offset> next_base;  // where the next segment begins
  bool has_segment_before = false;
};

// What is wrong with it; `state` becomes that behind it. Error(not_found), Error(io).
std::vector<CheckFinding> check_segment(const SegmentToCheck& segment, LogState& state, const LostRanges& lost,
                                        const CheckOptions& options);

// Of a segment that cannot be read behind what `state` says: all is missing up to the next one, or up to what was on stable
// storage. `state` becomes that behind it.
CheckFinding unreadable_rest(const SegmentToCheck& segment, LogState& state, const std::string& reason);

// The message of an error without the path that it begins with.
std::string without_path(std::string_view message, std::string_view path);

// What of the range from `first` to below `next` is not in `lost`, as one range; nullopt: nothing.
std::optional<std::pair<Offset, Offset>> not_listed(Offset first, Offset next, const LostRanges& lost);

}  // namespace partlog::inspect

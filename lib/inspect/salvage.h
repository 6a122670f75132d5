// What is whole in the segments of a partition, wherever it stands, and the segments that it makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspect/partition_context.h"
#include "inspect/run.h"
#include "partlog/segment_file.h"

namespace partlog::inspect {

struct Salvage {
  std::vector<SegmentPath> sources;   // the segments that are there,
  std::vector<std::int64_t> sizes;    // of those,
  std::vector<SegmentPath> segments;  // and those that are to be
  std::vector<Run> runs;              // by the offsets at which they start, apart from each other
  LostRanges dropped;                 // offsets of sound batches that are in none of the runs, though others may have them
  bool has_all = false;               // all offsets that are not there are missing
  Offset end;                         // the log ends there, or did before something at the end was lost
};

// `missing`: offsets that are said to be missing, by ascending ones, apart from each other; a run does not reach over them.
// `epochs_are_right`: leader-epoch-checkpoint tells which epoch a batch has whose own is another.
Salvage survey(const PartitionContext& context, const LogState& known, const LostRanges& missing, bool epochs_are_right,
               const CheckOptions& options);
// The same ranges, by ascending offsets and apart from each other.
LostRanges merged(LostRanges ranges);

// The ranges that some run holds, by ascending offsets.
LostRanges covered(const std::vector<Run>& runs);
// What of `ranges` is in none of `taken`; both by ascending offsets.
LostRanges without(const LostRanges& ranges, const LostRanges& taken);

// One segment as it is to be: the batches of the runs from its base to below the next one's.
class SegmentMaker {
 public:
  SegmentMaker(const Salvage& salvage, std::size_t number);

  // There is a segment that is just that already.
  bool is_right() const;
  // Writes it to a new file, synced.
  void write(const std::string& path, const InspectOptions& options) const;

 private:
  const Salvage& salvage_;
  Offset base_;
  Offset limit_;
  std::vector<const Run*> runs_;
};

}  // namespace partlog::inspect

// What is whole in the segments of a partition, wherever it stands, and the segments that it makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "inspect/partition_context.h"
#include "partlog/segment_file.h"

namespace partlog::inspect {

// Batches that stand one behind the other in a file, with rising offsets.
struct Run {
  std::size_t file = 0;  // the number of the segment
  std::int64_t position = 0;
  std::int64_t end = 0;
  Offset first;
  Offset next;
  // What is to be written instead, into the only batch.
  std::optional<Offset> offset;
  std::optional<std::int32_t> epoch;

  Offset start() const { return offset.value_or(first); }
  Offset stop() const { return start() + (next - first); }
};

struct Salvage {
  std::vector<SegmentPath> segments;
  std::vector<std::int64_t> sizes;
  std::vector<Run> runs;  // by the offsets at which they start
  Offset end;             // the log ends there, or did before something at the end was lost
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

  // It is just that already.
  bool is_right() const;
  // Writes it to a new file, synced.
  void write(const std::string& path, const InspectOptions& options) const;

 private:
  const Salvage& salvage_;
  std::size_t number_;
  Offset base_;
  Offset limit_;
  std::vector<const Run*> runs_;
};

}  // namespace partlog::inspect

// Checks partition directories and their files, ours or a Kafka broker's: batches, the records in them, the order of offsets and
// epochs within and across segments, indexes and the small files beside them against the log.
//
// Nothing is written, no lock is taken, and read permission is enough. Writers, and commands that change the store, may be at
// work meanwhile: what looks wrong is looked at again, some time later, and told only if it is wrong in the same way then. Memory
// does not grow with the log. Blocks for the reading only. Safe from several threads.
//
// Offsets that are not there are damage only where nothing else explains them: the topic is not compacted (its topic.properties
// say so, or a record without key stands in front, which no compaction would have left there), retention has not passed them by,
// and no repair has written them down as lost.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/segment_file.h"
#include "partlog/store.h"
#include "partlog/types.h"

namespace partlog {

enum class Verdict {
  clean,
  torn_tail,  // what a writer that died left at the end; the next one cuts it
  damaged,
};

struct CheckFinding {
  enum class Kind { note, torn_tail, damage };
  Kind kind = Kind::damage;
  std::string file;
  std::optional<Position> position;  // where in the file; `end` is behind it
  std::optional<Position> end;
  // The offsets that are missing or wrong, the last one included; without a last one: it is not known how many.
  std::optional<Offset> first_offset;
  std::optional<Offset> last_offset;
  std::string reason;
  std::string group{};  // whose position is past the end. NOLINT(readability-redundant-member-init): it may be left out
};

struct CheckResult {
  Verdict verdict = Verdict::clean;
  std::uint64_t segments = 0;
  std::uint64_t batches = 0;  // sound ones
  std::uint64_t records = 0;
  std::optional<Offset> first_offset;  // of the first sound batch; nullopt: there is none
  Offset end;                          // behind the last one
};

struct CheckOptions {
  InspectOptions inspect;
  bool alone = false;                       // nobody else is at work: nothing need be looked at twice
  const std::atomic<bool>* stop = nullptr;  // raised: end early, with what was found so far
};

// Called for each finding, in the order of the log, soon after it is certain.
using TakeFinding = std::function<void(const CheckFinding&)>;

// A partition directory. Error(not_found) if there are no segments in it; Error(io).
PARTLOG_EXPORT CheckResult check_partition(const std::string& directory, const CheckOptions& options, const TakeFinding& take);

// One file: a segment with the indexes beside it, an index with the segment beside it, or another of those that side_file.h
// knows, by itself. Error(not_found), Error(io); Error(refused) for a file of which it cannot be told what it is.
PARTLOG_EXPORT CheckResult check_file(const std::string& path, const CheckOptions& options, const TakeFinding& take);

// The positions that groups have in a partition, against the log as it is: one below its start is a note, one past its end
// damage; what of a group cannot be read is damage, too. `end`: where the log would end after a repair, if that is further.
PARTLOG_EXPORT Verdict check_group_positions(const Store& store, const Topic& topic, int partition, const TakeFinding& take,
                                             Offset end = {0});

}  // namespace partlog

// Repairs partition directories that check_partition() calls damaged, and makes their indexes anew.
//
// In a partition of a store all is done under its append lock, so that writers wait, and find the new files when it is their
// turn; readers that have an old file open go on in it. A Kafka broker's own directory has no lock of ours: the broker must not
// run.
//
// What is replaced is written beside first, synced, and put in place by renames that a list on disk vouches for: after a crash at
// any point the next repair finishes them, or begins anew, and nothing but what was damaged before is missing. Durable on return.
// What was done is told before the list is removed: a repair that dies in between is told of by the next one.
//
// Memory grows with the number of damaged places, not with the log. Blocks for reading the whole partition and for writing the
// segments that are replaced.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/partition_check.h"
#include "partlog/types.h"

namespace partlog {

struct RepairOptions {
  CheckOptions check;
  bool dry_run = false;  // no lock is taken and nothing written; the result says what would be done
  std::optional<std::chrono::milliseconds> lock_timeout;
};

struct RepairResult {
  Verdict before = Verdict::clean;
  std::vector<std::pair<Offset, Offset>> lost;  // ranges that could not be saved this time, the last one included
  Offset end;                                   // behind what was lost at the end, where the log goes on; 0: nothing was
  std::string kept_in;                          // the directory with the files as they were; empty: none was replaced
  std::string list;                             // the file that lists what was lost, this time and before; empty: no such file
  bool list_is_new = false;                     // the one that was there was damaged, and only what is lost this time is in it
  std::vector<std::string> replaced;            // names of files, in the partition directory
  std::vector<CheckFinding> left;               // damage that is there still
};

// Error(busy) if the lock is not free within the time-out; Error(not_found), Error(io): what was damaged before still is.
//
// Batches behind damage are kept, also those that stand in the wrong segment; of two with the same offsets the first. A batch
// whose records cannot be decoded is left out. Where only the offset or the epoch of a batch was damaged, which its checksum does
// not cover, and what is around it tells the right one, it is set. Offsets that were lost at the end are not used again. A torn
// tail is cut. A mark that a sync has failed is removed once everything has been read back from the device.
//
// `tell` gets what was done, or would be: first of an interrupted repair that this one finishes, which is found as damage, too;
// then of this one, unless nothing was left to be done. The last one is what is returned. If `tell` throws, so does this, and the
// next repair tells it again. A dry run does not look past an interrupted repair.
using TakeRepair = std::function<void(const RepairResult&)>;
PARTLOG_EXPORT RepairResult repair_partition(const std::string& directory, const RepairOptions& options, const TakeFinding& take,
                                             const TakeRepair& tell = {});

// Writes the offset and time indexes of all segments anew, from the batches; `replaced` names those that were not right.
// Error(damaged) where a repair was interrupted, which would have to tell what it did.
PARTLOG_EXPORT RepairResult rebuild_indexes(const std::string& directory, const RepairOptions& options);

}  // namespace partlog

// What is known of a partition from elsewhere than its batches: its topic's properties, and our own small files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "inspect/segment_check.h"

namespace partlog::inspect {

struct PartitionContext {
  std::string directory;
  bool is_ours = false;   // a partition of a store
  std::string topic_id;   // ours only
  bool is_dense = false;  // ours, and not compacted
  std::int64_t index_interval_bytes = 4096;
  bool on_network = false;
  LostRanges lost;
  std::optional<Offset> missing_start;  // not ours: where the log began, by an index that is left

  // The state in front of the first batch.
  LogState start() const;
};

// Files that cannot be read leave out what they say: they are told of by the check of the file itself.
PartitionContext context_of(const std::string& directory);

}  // namespace partlog::inspect

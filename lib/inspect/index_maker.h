// Writes the indexes of a segment from its batches.
#pragma once

#include "log/segment_index.h"
#include "partlog/segment_file.h"

namespace partlog::inspect {

// For the batches in `log`, into files that are made, or emptied first. `closed`: the segment has a successor. Synced.
void make_indexes(const std::string& log, const log::SegmentFiles& into, std::int64_t interval_bytes, bool closed);

}  // namespace partlog::inspect

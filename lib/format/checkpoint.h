// Kafka's small text files in a partition directory, and our own beside them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/types.h"

namespace partlog::format {

// leader-epoch-checkpoint (LeaderEpochCheckpointFile): version 0, count, then "epoch start_offset" lines.
struct EpochStart {
  std::int32_t epoch;
  Offset start;
  friend bool operator==(const EpochStart&, const EpochStart&) = default;
};
std::vector<EpochStart> parse_leader_epochs(std::string_view text, const std::string& path);  // Error(damaged)
std::string format_leader_epochs(const std::vector<EpochStart>& epochs);

// partition.metadata (PartitionMetadataFile): "version: 0", "topic_id: <22 characters of URL-safe base64>".
std::string parse_partition_metadata(std::string_view text, const std::string& path);  // the topic id; Error(damaged)
std::string format_partition_metadata(std::string_view topic_id);

// Kafka's Uuid as text: 16 random bytes, URL-safe base64 without padding, never one that starts with '-' (Uuid.randomUuid).
std::string random_uuid();

// log-start-offset: one decimal number and a newline.
Offset parse_log_start_offset(std::string_view text, const std::string& path);  // Error(damaged)
std::string format_log_start_offset(Offset start);

// recovery-point: properties offset, segment (base offset), position, boot_id. Everything before `offset` is on stable storage;
// it ends at `position` of the segment.
struct RecoveryPoint {
  Offset offset;
  Offset segment;
  Position position;
  std::string boot_id;
  friend bool operator==(const RecoveryPoint&, const RecoveryPoint&) = default;
};
RecoveryPoint parse_recovery_point(std::string_view text, const std::string& path);  // Error(damaged)
// Whether a power failure may have left no more than this of one: the file is renamed into place before its data is synced, so
// that it may be empty, of zeros, or without its end, which may begin where a line does.
bool is_part_of_recovery_point(std::string_view text);
std::string format_recovery_point(const RecoveryPoint& point);

// cuts: one line "offset boot_id time" per restart of the host (time: ISO 8601 UTC): where the log ended then.
struct Cut {
  Offset offset;
  std::string boot_id;
  std::string time;
};
std::vector<Cut> parse_cuts(std::string_view text, const std::string& path);  // Error(damaged)
std::string format_cut(const Cut& cut);                                       // with newline

// lost-offsets: one line "first last time" per range that a repair could not save, the last one included, by ascending offsets.
struct LostOffsets {
  Offset first;
  Offset last;
  std::string time;
};
std::vector<LostOffsets> parse_lost_offsets(std::string_view text, const std::string& path);  // Error(damaged)
std::string format_lost_offsets(const LostOffsets& lost);                                     // with newline

}  // namespace partlog::format

// The committed offset of a group in a partition, as text: properties committed_at, cuts, leader_epoch, member, metadata, offset,
// path_synced, topic_id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "partlog/types.h"

namespace partlog::format {

struct OffsetFile {
  std::optional<Offset> offset;  // the next to read; without one a member has taken the partition and committed nothing so far
  std::string topic_id;
  std::int32_t leader_epoch = no_epoch;
  std::size_t cuts = 0;
  Timestamp committed_at = no_timestamp;  // no_timestamp as long as there is no offset
  std::string member;
  std::string metadata;      // any bytes; on its line \n, \r, \t, \\ and \xHH stand for what would break it
  bool path_synced = false;  // the directories above the file are on stable storage
  friend bool operator==(const OffsetFile&, const OffsetFile&) = default;
};

inline constexpr std::size_t max_metadata_size = 4096;  // Kafka's offset.metadata.max.bytes

OffsetFile parse_offset_file(std::string_view text, const std::string& path);  // Error(damaged)
std::string format_offset_file(const OffsetFile& file);

}  // namespace partlog::format

// group.properties: who belongs to a group, and which partitions are assigned to whom. Properties:
//
//   assignor=sticky
//   generation=7
//   member.<id>.assigned=clicks:0-3,6 views:0       as record addresses
//   member.<id>.commits=true
//   member.<id>.responds=true                       false: it left lying what was assigned to it
//   member.<id>.host, .pid, .since                  ISO 8601 UTC
//   member.<id>.topics=clicks views
//   topic.<topic>=<topic id> <partitions>           as they were when the assignment was made
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/file_names.h"
#include "partlog/group.h"

namespace partlog::group {

// That a group has together. More in a file are damage.
inline constexpr std::size_t most_partitions = std::size_t{10} * format::max_partitions;

struct KnownTopic {
  std::string id;
  int partitions = 0;
  friend bool operator==(const KnownTopic&, const KnownTopic&) = default;
};

struct MemberTable {
  std::int64_t generation = 0;
  std::string assignor;
  std::vector<MemberInfo> members;  // in the order of their ids
  std::map<std::string, KnownTopic> topics;

  const MemberInfo* find(std::string_view id) const;
  MemberInfo* find(std::string_view id);
};

// Error(damaged) also where a partition is assigned twice.
MemberTable parse_member_table(std::string_view text, const std::string& path);
std::string format_member_table(const MemberTable& table);

}  // namespace partlog::group

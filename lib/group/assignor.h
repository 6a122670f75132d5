// Which member of a group gets which partitions. Pure functions: every member computes the same from the same.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "partlog/group.h"
#include "partlog/group_member.h"

namespace partlog::group {

struct Subscription {
  std::string member;
  std::vector<std::string> topics;
  std::vector<TopicPartition> owned;  // by the last assignment
};

// Number of partitions by topic. A topic that is absent has none.
using PartitionCounts = std::map<std::string, int>;
// Partitions that are not given to anybody: who does not take part has them.
using Withheld = std::set<TopicPartition>;
// An entry for every member; its partitions sorted.
using Assignment = std::map<std::string, std::vector<TopicPartition>>;

// Each other partition of a topic that somebody subscribes to is given to exactly one member that does.
// - range (Kafka's RangeAssignor): each topic by itself, in ranges over its members in the order of their ids; the first ones get
//   one more where it does not come out even.
// - roundrobin (Kafka's RoundRobinAssignor): all partitions in turn over all members, passing over those that do not subscribe.
// - sticky: as even as the subscriptions allow (at most one more where all are alike), and among those moves as few partitions
//   as it can.
Assignment assign(Assignor assignor, std::vector<Subscription> members, const PartitionCounts& counts,
                  const Withheld& withheld = {});

std::string_view name_of(Assignor assignor);

}  // namespace partlog::group

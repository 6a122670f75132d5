// Where a group stands in a partition, for those who look at it from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "partlog/group.h"
#include "partlog/store.h"

namespace partlog::cmd {

struct Standing {
  // ok, below-start, past-end, cut, no-position, topic-deleted
  std::string_view state;
  std::optional<Offset> committed;
  std::optional<Offset> start;
  std::optional<Offset> end;
  // How far the position is from the end; nullopt where there is none, or it lies beyond the end.
  std::optional<std::int64_t> lag;
};

// `topic`: nullptr where there is none of that name.
Standing standing(const Store& store, const Group& group, const Topic* topic, const TopicPartition& partition);

}  // namespace partlog::cmd

#include "group_standing.h"

#include "partlog/reader.h"

namespace partlog::cmd {
namespace {

std::string_view state_word(GroupPosition::State state) {
  switch (state) {
    case GroupPosition::State::in_log:
      break;
    case GroupPosition::State::below_start:
      return "below-start";
    case GroupPosition::State::past_end:
      return "past-end";
    case GroupPosition::State::cut:
      return "cut";
  }
  return "ok";
}

}  // namespace

Standing standing(const Store& store, const Group& group, const Topic* topic, const TopicPartition& partition) {
  Standing result{"topic-deleted", {}, {}, {}, {}};
  if (topic == nullptr || partition.partition >= topic->partitions) {
    if (auto committed = group.committed(partition.topic, partition.partition)) result.committed = committed->offset;
    return result;
  }
  if (auto position = group.position(store, *topic, partition.partition)) {
    result = {state_word(position->state), position->committed, position->start, position->end, {}};
    if (position->state != GroupPosition::State::past_end) result.lag = position->end - position->offset;
    return result;
  }
  PartitionReader reader(store, *topic, partition.partition);
  return {"no-position", {}, reader.start(), reader.end(), {}};
}

}  // namespace partlog::cmd

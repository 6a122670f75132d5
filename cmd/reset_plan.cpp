#include "reset_plan.h"

#include <limits>

#include "group_commands.h"
#include "partlog/reader.h"

namespace partlog::cmd {
namespace {

Offset shifted(Offset from, std::int64_t by) {
  std::int64_t sum;
  if (!__builtin_add_overflow(from.value, by, &sum)) return {sum};
  return {by < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max()};
}

void clamp(PlannedReset& plan, Offset wanted, Offset start, Offset end) {
  plan.target = wanted < start ? start : wanted > end ? end : wanted;
  if (wanted < start) plan.note = std::to_string(wanted.value) + " is below the start of the log: clamped";
  if (wanted > end) plan.note = std::to_string(wanted.value) + " is beyond the end of the log: clamped";
}

// Where the group stands; a damaged position counts as none for targets that do not need it.
std::optional<GroupPosition> position_now(const Store& store, const Group& group, const Topic& topic, int partition,
                                          ResetTarget::Kind kind, PlannedReset& plan) {
  try {
    return group.position(store, topic, partition);
  } catch (const Error& error) {
    bool needed = kind == ResetTarget::Kind::current || kind == ResetTarget::Kind::shift;
    if (error.code() != ErrorCode::damaged || needed) throw;
    plan.damage = error.what();
    return std::nullopt;
  }
}

}  // namespace

PlannedReset plan_reset(const Store& store, const std::optional<Group>& group, const Topic& topic, int partition,
                        const ResetTarget& target) {
  using Kind = ResetTarget::Kind;
  PlannedReset plan;
  auto position = group ? position_now(store, *group, topic, partition, target.kind, plan) : std::nullopt;
  if (position) plan.old = position->committed;
  std::optional<PartitionReader> reader;
  if (!position || target.kind == Kind::time) reader.emplace(store, topic, partition);
  Offset start = position ? position->start : reader->start();
  Offset end = position ? position->end : reader->end();
  switch (target.kind) {
    case Kind::earliest:
      plan.target = start;
      break;
    case Kind::latest:
      plan.target = end;
      break;
    case Kind::current:
      if (position) {
        clamp(plan, position->offset, start, end);
      } else {
        plan.target = end;
        plan.note = "no position: the end of the log";
      }
      break;
    case Kind::offset:
      clamp(plan, {target.number}, start, end);
      break;
    case Kind::shift:
      if (!position) {
        throw Error(ErrorCode::not_found,
                    partition_name(topic.name, partition) + ": the group has no position there that could be shifted");
      }
      clamp(plan, shifted(position->offset, target.number), start, end);
      break;
    case Kind::time:
      plan.target = reader->offset_at(target.time);
      if (!plan.target) {
        plan.target = end;
        plan.note = "no record at or after that time: the end of the log";
      }
      break;
  }
  std::string about_old;
  if (!plan.damage.empty()) about_old = "the old position cannot be read";
  if (position && position->state == GroupPosition::State::cut) {
    about_old = "the log had been cut at " + std::to_string(position->offset.value);
  }
  if (!plan.note.empty() && !about_old.empty()) plan.note += "; ";
  plan.note += about_old;
  return plan;
}

}  // namespace partlog::cmd

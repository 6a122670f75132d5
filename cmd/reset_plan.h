// Where `reset-offset` moves positions to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partlog/group.h"
#include "partlog/store.h"

namespace partlog::cmd {

struct ResetTarget {
  // current: where the group stands, else the end, as Kafka's tool has it; offset: `number`; shift: by `number` from where the
  // group stands; time: the first record at or after `time`.
  enum class Kind { earliest, latest, current, offset, shift, time };
  Kind kind = Kind::earliest;
  std::int64_t number = 0;
  Timestamp time;
};

struct PlannedReset {
  std::optional<Offset> old;     // nullopt: the group has no position
  std::optional<Offset> target;  // nullopt: it is left without one
  std::string note;
  std::string damage;  // not empty: why the old position cannot be told
};

// A position that cannot be read is in the way only of targets that need it. Throws Error(not_found) where there is no position
// to shift. `group`: nullopt for one that does not exist.
PlannedReset plan_reset(const Store& store, const std::optional<Group>& group, const Topic& topic, int partition,
                        const ResetTarget& target);

}  // namespace partlog::cmd

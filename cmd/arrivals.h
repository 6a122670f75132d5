// How far what was delivered of one partition has arrived.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "delivery.h"
#include "partition_cursor.h"

namespace partlog::cmd {

class Arrivals {
 public:
  // Nothing is known to have arrived, or everything below `arrived`.
  Arrivals(const Store& store, std::shared_ptr<const Topic> topic, int partition, ReaderOptions reading,
           std::optional<Offset> arrived = {})
      : store_(&store), topic_(std::move(topic)), partition_(partition), reading_(std::move(reading)), arrived_(arrived) {}

  // Records from `from` to `next` are about to be handed on: to be called before that (Delivery::call_before).
  void begin(const Delivery& delivery, Offset from, Offset next);
  // Delivers some records of the cursor; see Delivery::deliver().
  bool deliver(Delivery& delivery, PartitionCursor& cursor);

  // Looks how much has arrived by now, `taken` being what the delivery says; to the record if it is to be `exact`, which may have
  // to read some records again.
  void settle(Delivery& delivery, std::uint64_t taken, bool exact);

  // Everything below has arrived; nullopt: nothing is known.
  const std::optional<Offset>& arrived() const { return arrived_; }
  bool anything_under_way() const { return !under_way_.empty(); }

 private:
  // Records from `from` to `next`, and what the delivery had handed on before and behind them.
  struct Mark {
    std::uint64_t before;
    std::uint64_t behind;
    Offset from;
    Offset next;
  };

  void end(const Delivery& delivery);

  const Store* store_;
  std::shared_ptr<const Topic> topic_;
  int partition_;
  ReaderOptions reading_;  // as the cursor reads
  std::deque<Mark> under_way_;
  std::optional<Offset> arrived_;
};

}  // namespace partlog::cmd

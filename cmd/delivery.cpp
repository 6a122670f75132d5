#include "delivery.h"

#include <algorithm>

#include "signals.h"

namespace partlog::cmd {

bool Delivery::wanted() const { return delivered_ < options_.count && !stop_requested(); }

Delivery::Choice Delivery::choose(std::span<const Record> records, const PartitionCursor& cursor, std::uint64_t limit) {
  limit = std::min(limit, still_wanted());
  if (limit == 0) return {{}, records.front().offset};
  const auto passing = filter_.passing(records);
  if (passing.size() < limit) return {passing, cursor.next()};
  return {passing.first(limit), passing[limit - 1].offset + 1};
}

bool Delivery::announce(PartitionCursor& cursor, Offset start, Offset next) {
  if (!before_) return true;
  try {
    before_(cursor, next);
    return true;
  } catch (const Error& error) {
    outcome_.fail(error);
    cursor.rewind(start);
    cursor.abandon();
    return false;
  }
}

void Delivery::finish(PartitionCursor& cursor, Offset next) {
  if (next < cursor.next()) cursor.rewind(next);
}

bool PrintDelivery::deliver(PartitionCursor& cursor) {
  const auto start = cursor.next();
  const auto records = cursor.read(outcome_);
  if (records.empty()) return false;
  const auto chosen = choose(records, cursor, still_wanted());
  if (!announce(cursor, start, chosen.next)) return false;
  print(chosen.records, cursor.origin());
  finish(cursor, chosen.next);
  return true;
}

void PrintDelivery::print(std::span<const Record> records, const Origin& origin) {
  if (records.empty()) return;
  delivered_ += records.size();
  if (!options_.unbuffered) return format_.write(records, origin);
  for (const auto& record : records) {
    format_.write({&record, 1}, origin);
    output_.flush();
  }
}

}  // namespace partlog::cmd

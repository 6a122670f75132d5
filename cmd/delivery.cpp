#include "delivery.h"

#include <fcntl.h>

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
    before_(cursor, start, next);
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

PrintDelivery::PrintDelivery(Filter& filter, Outcome& outcome, Options options, const OutputFormat& format, Output& output)
    : Delivery(filter, outcome, options), form_(format), output_(output), format_(output, format) {}

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

// Formats the records once more, to see how many bytes each was.
Offset PrintDelivery::first_not_taken(PartitionReader& reader, std::string_view topic, Offset to, std::uint64_t handed_on,
                                      std::uint64_t taken) {
  const Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Output output(nowhere.get(), Output::SecondThread::never);
  RecordOutput format(output, form_);
  for (auto records = reader.read(to); !records.empty(); records = reader.read(to)) {
    for (const auto& record : records) {
      if (!filter_.passes(record)) continue;
      format.write({&record, 1}, {topic, reader.partition(), reader.leader_epoch(), reader.timestamp_type()});
      if (handed_on + output.appended() > taken) return record.offset;
    }
  }
  return to;
}

}  // namespace partlog::cmd

#include "consumption.h"

#include <poll.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "merged_records.h"
#include "signals.h"

namespace partlog::cmd {

namespace {
constexpr int short_wait_ms = 2;
}

Consumption::Consumption(Filter& filter, Delivery& delivery, PrintDelivery* printer, Outcome& outcome, ConsumptionOptions options)
    : filter_(filter), delivery_(delivery), printer_(printer), outcome_(outcome), options_(std::move(options)) {}

void Consumption::run(const Store* store, std::vector<PartitionCursor>& cursors) {
  if (options_.track) track(*store, cursors);
  if (options_.tail) {
    read_tail(cursors);
  } else if (options_.merge) {
    read_merged(cursors, std::vector<std::uint64_t>(cursors.size()), 0);
  } else if (!options_.follow) {
    read_one_after_another(cursors);
  }
  if (options_.follow) follow(cursors);
  delivery_.flush();
  if (options_.track) wait_until_taken();
}

void Consumption::track(const Store& store, std::vector<PartitionCursor>& cursors) {
  for (const auto& cursor : cursors) {
    arrivals_.insert({{cursor.topic()->name, cursor.partition()},
                      {store, cursor.topic(), cursor.partition(), options_.reader, cursor.next()}});
  }
  delivery_.call_before([this](PartitionCursor& cursor, Offset from, Offset next) {
    arrivals_.at({cursor.topic()->name, cursor.partition()}).begin(delivery_, from, next);
  });
}

bool Consumption::deliver(PartitionCursor& cursor) {
  if (!options_.track) return delivery_.deliver(cursor);
  return arrivals_.at({cursor.topic()->name, cursor.partition()}).deliver(delivery_, cursor);
}

// A pipe tells nobody when its reader takes something out of it.
void Consumption::wait_until_taken() {
  while (!stop_requested()) {
    bool under_way = false;
    const auto taken = delivery_.taken();
    for (auto& [partition, arrivals] : arrivals_) {
      arrivals.settle(delivery_, taken, false);
      under_way = under_way || arrivals.anything_under_way();
    }
    if (!under_way) return;
    delivery_.require_taker();
    pollfd stop = {stop_descriptor(), POLLIN, 0};
    ::poll(&stop, 1, short_wait_ms);
  }
}

std::map<TopicPartition, Offset> Consumption::positions() {
  std::map<TopicPartition, Offset> positions;
  const auto taken = delivery_.taken();
  for (auto& [partition, arrivals] : arrivals_) {
    arrivals.settle(delivery_, taken, true);
    positions[partition] = *arrivals.arrived();
  }
  return positions;
}

void Consumption::read_one_after_another(std::vector<PartitionCursor>& cursors) {
  for (auto& cursor : cursors) {
    while (delivery_.wanted() && deliver(cursor)) continue;
    cursor.abandon();
  }
}

// `surplus` records of each cursor, and then `total_surplus` of the merged sequence, are passed over.
void Consumption::read_merged(std::vector<PartitionCursor>& cursors, const std::vector<std::uint64_t>& surplus,
                              std::uint64_t total_surplus) {
  MergedRecords merged(cursors, surplus, filter_, outcome_, options_.share);
  while (delivery_.wanted()) {
    const auto* record = merged.next();
    if (record == nullptr) return;
    if (total_surplus > 0) {
      --total_surplus;
    } else {
      printer_->print({record, 1}, merged.origin());
    }
  }
}

void Consumption::read_tail(std::vector<PartitionCursor>& cursors) {
  std::vector<std::uint64_t> surplus(cursors.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    std::uint64_t passing = find_tail(cursors[i]);
    cursors[i].release_memory();
    surplus[i] = passing - std::min(passing, *options_.tail);
    total += passing - surplus[i];
  }
  read_merged(cursors, surplus, total - std::min(total, *options_.tail));
}

// Moves a cursor back from its end until enough records pass, or to its first; returns how many pass from there on.
std::uint64_t Consumption::find_tail(PartitionCursor& cursor) {
  std::uint64_t passing = 0;
  try {
    cursor.apply_until();
    cursor.tell_later();
    for (;;) {
      passing = count_back(cursor);
      if (!cursor.reader().has_transactions()) break;
      // What was counted may have begun inside a transaction that is still open, whose start is the end then.
      const auto from = cursor.next();
      passing = count_passing(cursor.reader(), from, cursor.last_end());
      const bool again = cursor.end_where_held_back();
      cursor.seek(from);
      if (!again) break;
    }
  } catch (const Error& error) {
    outcome_.fail(error);
    if (passing == 0) cursor.abandon();
  }
  cursor.tell_now();
  return passing;
}

std::uint64_t Consumption::count_back(PartitionCursor& cursor) const {
  std::uint64_t passing = 0;
  Offset from = cursor.last_end();
  constexpr std::int64_t widest = std::numeric_limits<std::int64_t>::max() / 4;  // offsets may reach far where few records are
  cursor.seek(from);
  std::int64_t width = static_cast<std::int64_t>(std::clamp<std::uint64_t>(*options_.tail, 1, 1 << 30));
  while (from > cursor.first() && passing < *options_.tail && !stop_requested()) {
    Offset next = std::max(cursor.first(), from - width);
    passing += count_passing(cursor.reader(), next, from);
    from = next;
    cursor.seek(from);
    width = std::min(width, widest) * 2;
  }
  return passing;
}

std::uint64_t Consumption::count_passing(PartitionReader& reader, Offset from, Offset to) const {
  std::uint64_t count = 0;
  reader.seek(from);
  for (auto records = reader.read(to); !records.empty() && !stop_requested(); records = reader.read(to)) {
    count += static_cast<std::uint64_t>(
        std::count_if(records.begin(), records.end(), [&](const Record& record) { return filter_.passes(record); }));
  }
  return count;
}

// A large batch is delivered whole, so that nothing of it has to be held or read again.
bool Consumption::deliver_in_turn(PartitionCursor& cursor) {
  const bool any = deliver(cursor);
  if (cursor.memory() <= options_.share) return any;
  while (delivery_.is_quick() && delivery_.wanted() && cursor.in_batch() && deliver(cursor)) continue;
  cursor.release_memory();
  return any;
}

void Consumption::follow(std::vector<PartitionCursor>& cursors) {
  std::vector<std::string> directories;
  for (auto& cursor : cursors) {
    if (cursor.done()) continue;
    cursor.follow_on();
    directories.push_back(cursor.directory());
  }
  PartitionWatch watch(directories);
  IdleTime idle(options_.idle_timeout);
  while (delivery_.wanted()) {
    bool any = false;
    for (auto& cursor : cursors) {
      any = deliver_in_turn(cursor) || any;
      if (!delivery_.wanted()) return;
    }
    if (std::all_of(cursors.begin(), cursors.end(), [](const PartitionCursor& cursor) { return cursor.done(); })) return;
    if (any) {
      idle.record_came();
      continue;
    }
    delivery_.flush();
    delivery_.require_taker();
    const auto timeout = idle.left();
    if (!timeout) return;
    watch.wait(*timeout, stop_descriptor(), delivery_.taker_descriptor());
  }
}

std::optional<std::chrono::milliseconds> IdleTime::left() const {
  const std::chrono::milliseconds most = std::chrono::hours(1);
  if (!limit_) return most;
  const auto idle = std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - since_);
  if (idle >= *limit_) return std::nullopt;
  return std::min(most, *limit_ - idle);
}

}  // namespace partlog::cmd

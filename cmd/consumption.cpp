#include "consumption.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "signals.h"

namespace partlog::cmd {

// A cursor in a merge, at the record that comes next from it.
struct Consumption::Head {
  PartitionCursor* cursor;
  std::size_t rank;  // the order in which the partitions were named
  std::uint64_t surplus;
  std::span<const Record> records;

  const Record& record() const { return records.front(); }

  // Heaps have their greatest element first, so the record to be printed next is the greatest.
  friend bool operator<(const Head& a, const Head& b) {
    auto key = [](const Head& h) { return std::tuple(h.record().timestamp, h.cursor->partition(), h.record().offset, h.rank); };
    return key(b) < key(a);
  }
};

Consumption::Consumption(Filter& filter, RecordOutput& format, Output& output, Outcome& outcome, ConsumptionOptions options)
    : filter_(filter), format_(format), output_(output), outcome_(outcome), options_(options) {}

bool Consumption::wanted() const { return printed_ < options_.count && !stop_requested(); }

void Consumption::run(const Store& store, std::vector<PartitionCursor>& cursors) {
  if (options_.tail) {
    read_tail(cursors);
  } else if (options_.merge) {
    read_merged(cursors, std::vector<std::uint64_t>(cursors.size()), 0);
  } else if (!options_.follow) {
    read_one_after_another(cursors);
  }
  if (options_.follow) follow(store, cursors);
  output_.flush();
}

// The next records of a cursor; one that fails is reported and done.
std::span<const Record> Consumption::read(PartitionCursor& cursor) {
  try {
    return cursor.read();
  } catch (const Error& error) {
    outcome_.fail(error);
    cursor.abandon();
    return {};
  }
}

void Consumption::print(std::span<const Record> records, PartitionCursor& cursor) {
  records = filter_.passing(records);
  records = records.first(std::min<std::uint64_t>(records.size(), options_.count - printed_));
  if (records.empty()) return;
  printed_ += records.size();
  if (!options_.unbuffered) return format_.write(records, cursor.origin());
  for (const auto& record : records) {
    format_.write({&record, 1}, cursor.origin());
    output_.flush();
  }
}

void Consumption::read_one_after_another(std::vector<PartitionCursor>& cursors) {
  for (auto& cursor : cursors) {
    while (wanted()) {
      auto records = read(cursor);
      if (records.empty()) break;
      print(records, cursor);
    }
    cursor.abandon();
  }
}

// Moves to the next record that passes; false if there is none.
bool Consumption::advance(Head& head) {
  if (!head.records.empty()) head.records = head.records.subspan(1);
  for (;;) {
    while (!head.records.empty() && !filter_.passes(head.record())) head.records = head.records.subspan(1);
    if (head.records.empty()) {
      if (stop_requested()) return false;
      head.records = read(*head.cursor);
      if (head.records.empty()) return false;
    } else if (head.surplus > 0) {
      --head.surplus;
      head.records = head.records.subspan(1);
    } else {
      return true;
    }
  }
}

// `surplus` records of each cursor, and then `total_surplus` of the merged sequence, are passed over.
void Consumption::read_merged(std::vector<PartitionCursor>& cursors, std::vector<std::uint64_t> surplus,
                              std::uint64_t total_surplus) {
  std::vector<Head> heap;
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    Head head{&cursors[i], i, surplus[i], {}};
    if (advance(head)) heap.push_back(head);
  }
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty() && wanted()) {
    std::pop_heap(heap.begin(), heap.end());
    Head& head = heap.back();
    if (total_surplus > 0) {
      --total_surplus;
    } else {
      print(head.records.first(1), *head.cursor);
    }
    if (advance(head)) {
      std::push_heap(heap.begin(), heap.end());
    } else {
      heap.pop_back();
    }
  }
}

void Consumption::read_tail(std::vector<PartitionCursor>& cursors) {
  std::vector<std::uint64_t> surplus(cursors.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    std::uint64_t passing = find_tail(cursors[i]);
    surplus[i] = passing - std::min(passing, *options_.tail);
    total += passing - surplus[i];
  }
  read_merged(cursors, std::move(surplus), total - std::min(total, *options_.tail));
}

// Moves a cursor back from its end until enough records pass, or to its first; returns how many pass from there on.
std::uint64_t Consumption::find_tail(PartitionCursor& cursor) {
  std::uint64_t passing = 0;
  try {
    cursor.apply_until();
    Offset from = cursor.last_end();
    cursor.seek(from);
    std::int64_t width = static_cast<std::int64_t>(std::clamp<std::uint64_t>(*options_.tail, 1, 1 << 30));
    while (from > cursor.first() && passing < *options_.tail && !stop_requested()) {
      Offset next = std::max(cursor.first(), from - width);
      passing += count_passing(cursor.reader(), next, from);
      from = next;
      cursor.seek(from);
      width = std::min<std::int64_t>(width * 2, 1 << 30);
    }
  } catch (const Error& error) {
    outcome_.fail(error);
    if (passing == 0) cursor.abandon();
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

void Consumption::follow(const Store& store, std::vector<PartitionCursor>& cursors) {
  using Clock = std::chrono::steady_clock;
  std::erase_if(cursors, [](const PartitionCursor& cursor) { return cursor.done(); });
  std::vector<std::string> directories;
  for (auto& cursor : cursors) {
    cursor.follow_on();
    directories.push_back(cursor.directory());
  }
  PartitionWatch watch(store, directories);
  auto last_record = Clock::now();
  while (wanted()) {
    bool any = false;
    for (auto& cursor : cursors) {
      auto records = read(cursor);
      any = any || !records.empty();
      print(records, cursor);
      if (!wanted()) return;
    }
    std::erase_if(cursors, [](const PartitionCursor& cursor) { return cursor.done(); });
    if (cursors.empty()) return;
    if (any) {
      if (options_.idle_timeout) last_record = Clock::now();
      continue;
    }
    output_.flush();
    output_.require_reader();
    std::chrono::milliseconds timeout;
    if (!may_wait(last_record, timeout)) return;
    watch.wait(timeout, stop_descriptor(), output_.descriptor());
  }
}

bool Consumption::may_wait(std::chrono::steady_clock::time_point last_record, std::chrono::milliseconds& timeout) const {
  timeout = std::chrono::hours(1);
  if (!options_.idle_timeout) return true;
  auto idle = std::chrono::floor<std::chrono::milliseconds>(std::chrono::steady_clock::now() - last_record);
  timeout = std::min(timeout, *options_.idle_timeout - idle);
  return timeout.count() > 0;
}

}  // namespace partlog::cmd

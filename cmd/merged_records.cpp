#include "merged_records.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "signals.h"

namespace partlog::cmd {

MergedRecords::MergedRecords(std::vector<PartitionCursor>& cursors, const std::vector<std::uint64_t>& surplus,
                             const Filter& filter, Outcome& outcome, std::size_t share)
    : filter_(filter), outcome_(outcome), share_(share) {
  heads_.reserve(cursors.size());
  turns_.reserve(cursors.size());
  for (std::size_t i = 0; i < cursors.size(); ++i) {
    heads_.push_back({&cursors[i], i, surplus[i], RecordCopies(share), {}, {}});
    if (find_next(heads_.back())) line_up(heads_.back());
  }
}

const Record* MergedRecords::next() {
  if (given_ != nullptr) {
    given_->records = given_->records.subspan(1);
    if (find_next(*given_)) line_up(*given_);
    given_ = nullptr;
  }
  while (!turns_.empty()) {
    std::pop_heap(turns_.begin(), turns_.end(), is_later);
    const Turn turn = turns_.back();
    turns_.pop_back();
    if (turn.head->records.empty()) {
      if (!find_next(*turn.head)) continue;
      if (turn.head->records.front().offset != turn.offset) {  // retention has overtaken us
        line_up(*turn.head);
        continue;
      }
    }
    given_ = turn.head;
    return &given_->records.front();
  }
  return nullptr;
}

bool MergedRecords::is_later(const Turn& a, const Turn& b) {
  const auto key = [](const Turn& t) { return std::tuple(t.timestamp, t.head->cursor->partition(), t.offset, t.head->rank); };
  return key(b) < key(a);
}

// Moves to the next record that passes; false if there is none.
bool MergedRecords::find_next(Head& head) {
  for (;;) {
    for (; !head.records.empty(); head.records = head.records.subspan(1)) {
      if (!filter_.passes(head.records.front())) continue;
      if (head.surplus == 0) return true;
      --head.surplus;
    }
    if (stop_requested()) return false;
    head.copies_origin.reset();
    head.records = head.cursor->read(outcome_);
    head.was_read = true;
    if (head.records.empty()) return false;
  }
}

void MergedRecords::line_up(Head& head) {
  const auto& record = head.records.front();
  turns_.push_back({record.timestamp, record.offset, &head});
  std::push_heap(turns_.begin(), turns_.end(), is_later);
  if (std::exchange(head.was_read, false) && head.cursor->memory() > share_) copy_share(head);
}

void MergedRecords::copy_share(Head& head) {
  const auto origin = head.cursor->origin();
  head.copies.clear();
  const auto next = copy_from(head);
  if (next < head.cursor->next()) head.cursor->rewind(next);
  head.cursor->release_memory();
  head.copies_origin = origin;
  head.records = head.copies.records();
}

// As much of the batch as fits; returns the offset from which on it has to be read again. Other batches may have another origin.
Offset MergedRecords::copy_from(Head& head) {
  auto records = head.records;
  do {
    for (const auto& record : records) {
      if (filter_.passes(record) && !head.copies.add(record)) return record.offset;
    }
    records = head.cursor->in_batch() ? head.cursor->read(outcome_) : std::span<const Record>();
  } while (!records.empty());
  return head.cursor->next();
}

}  // namespace partlog::cmd

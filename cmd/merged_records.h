// The records of several partitions in the order of their timestamps, then of partitions, then of offsets.
//
// Each partition may hold its share of the memory. Where its batches are larger than that, as many of their records as fit are
// copied, and the batch is given back and read again when their turn is over; of a record that does not fit only its place in the
// order is kept. So one batch in all is held beyond the shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "exit_status.h"
#include "filter.h"
#include "partition_cursor.h"
#include "record_copies.h"

namespace partlog::cmd {

class MergedRecords {
 public:
  // The first `surplus` records of each cursor that pass are left out. The references must outlive it.
  MergedRecords(std::vector<PartitionCursor>& cursors, const std::vector<std::uint64_t>& surplus, const Filter& filter,
                Outcome& outcome, std::size_t share);

  // The next record that passes, valid until the next call; nullptr at the end of all, and after a stop signal.
  const Record* next();
  // Where it comes from.
  Origin origin() const { return given_->copies_origin ? *given_->copies_origin : given_->cursor->origin(); }

 private:
  struct Head {
    PartitionCursor* cursor;
    std::size_t rank;  // the order in which the partitions were named
    std::uint64_t surplus;
    RecordCopies copies;
    std::optional<Origin> copies_origin;  // that is where `records` are
    std::span<const Record> records;      // from the next one on; none: it is to be read again
    bool was_read = false;                // and not looked at since for what the cursor holds
  };
  struct Turn {
    Timestamp timestamp;
    Offset offset;
    Head* head;
  };

  static bool is_later(const Turn& a, const Turn& b);
  bool find_next(Head& head);
  void line_up(Head& head);
  void copy_share(Head& head);
  Offset copy_from(Head& head);

  const Filter& filter_;
  Outcome& outcome_;
  std::size_t share_;
  std::vector<Head> heads_;
  std::vector<Turn> turns_;  // a heap, the next one in front
  Head* given_ = nullptr;    // whose record was given
};

}  // namespace partlog::cmd

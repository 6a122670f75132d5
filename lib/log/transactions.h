// Which transactions were aborted, as the markers that follow their records in the log say. The log is read ahead only as far as
// the transaction in question is open, so that what is remembered is what is open between here and there, and what was aborted.
//
// Brokers list aborted transactions in a .txnindex, too. It has no checksum and says nothing that the markers do not: compaction
// takes the records of an aborted transaction before its marker.
//
// Damage may hide a marker of each transaction that is open there: whether what lies before it was committed cannot be told then.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "format/record_batch.h"
#include "log/batch_stream.h"

namespace partlog::log {

class Transactions {
 public:
  // Damage that is found while something is undecided goes to `pass_over`, or is an Error(damaged) if that is empty.
  Transactions(PartitionDirectory directory, const ReaderOptions& options);

  enum class Fate { committed, aborted, open, lost };
  // Of the transaction that a batch, transactional and no marker, belongs to. Open: no marker follows, as the log is now. Lost:
  // one may have stood in what is damaged.
  Fate fate_of(const format::BatchHeader& batch);
  // Where a transaction is open: looks for damage at the end of the log that may be the reason, as BatchStream::look_ahead()
  // does. True: some was passed over, and fates may have changed.
  bool look_ahead();

  // Bytes held of what was read ahead.
  std::size_t memory() const { return ahead_.memory(); }
  // Gives them back.
  void release() { ahead_.seek(ahead_.position()); }

 private:
  using ProducerId = std::int64_t;

  void start_at(Offset offset);
  bool is_undecided(ProducerId producer, Offset offset) const;
  bool read_on();
  void take_marker(std::int64_t producer, Offset offset);
  void take_loss(const LostRange& range);
  void forget_below(Offset offset);

  BatchStream ahead_;
  bool started_ = false;
  Offset start_;
  Offset read_to_;
  struct Ended {
    Offset first;
    Fate fate;
  };
  std::unordered_map<ProducerId, Offset> open_;                   // the first offset
  std::map<std::pair<ProducerId, Offset>, Ended> not_committed_;  // by the offset of the marker, or of the damage
};

}  // namespace partlog::log

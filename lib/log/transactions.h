// Which transactions were aborted, as the markers that follow their records in the log say. The log is read ahead only as far as
// the transaction in question is open, so that what is remembered is what is open between here and there, and what was aborted.
//
// Brokers list aborted transactions in a .txnindex, too. It has no checksum and says nothing that the markers do not: compaction
// takes the records of an aborted transaction before its marker.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "format/record_batch.h"
#include "log/batch_stream.h"

namespace partlog::log {

class Transactions {
 public:
  // What is damaged is passed over in silence, or an Error(damaged).
  Transactions(PartitionDirectory directory, std::size_t window_bytes, bool pass_over_damage);

  enum class Fate { committed, aborted, open };
  // Of the transaction that a batch, transactional and no marker, belongs to. Open: no marker follows, as the log is now.
  Fate fate_of(const format::BatchHeader& batch);

 private:
  void start_at(Offset offset);
  bool read_on();
  void take_marker(std::int64_t producer, Offset offset);
  void forget_below(Offset offset);

  using ProducerId = std::int64_t;

  BatchStream ahead_;
  bool started_ = false;
  Offset start_;
  Offset read_to_;
  std::unordered_map<ProducerId, Offset> open_;              // the first offset
  std::map<std::pair<ProducerId, Offset>, Offset> aborted_;  // by the marker's offset; the first offset
};

}  // namespace partlog::log

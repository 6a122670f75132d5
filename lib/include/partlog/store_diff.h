// Compares the topics of two stores, record by record. Batches may be cut, compressed and encoded differently.
//
// Nothing is written and no lock is taken; where others write or remove meanwhile, what both held when a partition's turn came is
// compared, and what is told was so at one moment: growth between the looks at both is no difference. One thread at a time may
// work with a StoreDiff. Memory: two readers, whatever the stores hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "partlog/export.h"
#include "partlog/store.h"
#include "partlog/types.h"

namespace partlog {

struct Difference {
  std::string topic;
  std::optional<int> partition;
  // Of records: the first and the last of a row of them in each of which the field differs.
  std::optional<Offset> first;
  std::optional<Offset> last;
  // "topic", "partitions", "config NAME", "start_offset", "end_offset"; of records "record" (one side has none at this offset),
  // "timestamp", "key", "value", "headers", "leader_epoch".
  std::string field;
  // What either side has, of the first record; for "topic" and "record" one is "present" and the other nullopt. Of keys, values
  // and headers neither is given.
  std::optional<std::string> left;
  std::optional<std::string> right;
};

struct DiffOptions {
  bool common_range = false;  // that one log begins or ends elsewhere is no difference
  bool configs = false;       // the settings of topics are compared
  bool epochs = false;        // the leader epochs of records are
  // By partition, offset and field: of records when the first of a row is seen, with that one as the last.
  std::function<void(const Difference&)> found;
  // That row is complete: the one `found` was given after `number` others.
  std::function<void(std::uint64_t number, Offset last)> ended;
  const std::atomic<bool>* stop = nullptr;  // raised: ends after the records in hand
};

class PARTLOG_EXPORT StoreDiff {
 public:
  // The stores must outlive it.
  StoreDiff(const Store& left, const Store& right, DiffOptions options);

  // Whether both stores have the topic, as many partitions, and with `configs` the same settings.
  void topic(const std::string& name);
  // One partition that both have. Error(damaged) and others as PartitionReader::read, with what was found before told.
  void partition(const Topic& left, const Topic& right, int number);

  std::uint64_t records() const { return records_; }  // compared so far
  std::uint64_t differences() const { return differences_; }

 private:
  friend class PartitionDiff;
  std::uint64_t tell(const Difference& difference);  // its number

  const Store& left_;
  const Store& right_;
  DiffOptions options_;
  std::uint64_t records_ = 0;
  std::uint64_t differences_ = 0;
};

}  // namespace partlog

// Looks into the small files beside segments, ours or a Kafka broker's: indexes, snapshots of producers, checkpoints, properties.
// Nothing is written and no lock is taken. Safe from several threads.
//
// What can be read is given, in the order of the file; then the fault that ended the reading, if there was one. Memory does not
// grow with the file, but for text, of which the first MiB is read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/types.h"

namespace partlog {

enum class FileKind {
  batches,            // .log; .checkpoint of KRaft metadata
  offset_index,       // .index
  time_index,         // .timeindex
  transaction_index,  // .txnindex
  producer_snapshot,  // .snapshot
  leader_epochs,      // leader-epoch-checkpoint
  offsets,            // a broker's recovery-point-offset-checkpoint, replication-…, log-start-…, cleaner-offset-checkpoint
  properties,         // key=value: meta.properties, our own *.properties, recovery-point, committed offsets
  metadata,           // key: value: partition.metadata
  number,             // log-start-offset
  lines,              // cuts, lost-offsets
  json,               // quorum-state
  unknown,
};

// What a file is by its name; the endings .deleted, .cleaned, .swap and .tmp, with which brokers mark files on their way, do not
// count. Committed offsets have a number for a name: unknown by that alone, and properties in a directory of offsets.
PARTLOG_EXPORT FileKind file_kind(std::string_view path);

struct FileFault {
  Position position;
  std::string reason;
};

struct OffsetEntry {
  Offset offset;
  Position position;
};
struct TimeEntry {
  Timestamp timestamp;
  Offset offset;
};
// The transactions that were aborted (Kafka's AbortedTxn).
struct TransactionEntry {
  std::int16_t version = 0;
  std::int64_t producer_id = -1;
  Offset first_offset;
  Offset last_offset;
  Offset last_stable_offset;
};
// The state of a producer (Kafka's ProducerStateEntry); -1 where there is none.
struct ProducerEntry {
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::int32_t coordinator_epoch = -1;
  std::int32_t last_sequence = -1;
  Offset last_offset{-1};
  std::int32_t offset_delta = 0;  // of the last batch
  Timestamp last_timestamp = no_timestamp;
  Offset current_transaction_first_offset{-1};
};
struct EpochEntry {
  std::int32_t epoch = 0;
  Offset start_offset;
};
struct OffsetOfPartition {
  std::string topic;
  std::int32_t partition = 0;
  Offset offset;
};

// Offsets in indexes are relative to the base offset in the file's name, 0 where it names none. The zeros that a broker's indexes
// have at their end while it runs are passed over.
using FileFaultOrNone = std::optional<FileFault>;
PARTLOG_EXPORT FileFaultOrNone read_offset_index(const std::string& path, const std::function<void(const OffsetEntry&)>& take);
PARTLOG_EXPORT FileFaultOrNone read_time_index(const std::string& path, const std::function<void(const TimeEntry&)>& take);
PARTLOG_EXPORT FileFaultOrNone read_transaction_index(const std::string& path,
                                                      const std::function<void(const TransactionEntry&)>& take);
PARTLOG_EXPORT FileFaultOrNone read_producer_snapshot(const std::string& path,
                                                      const std::function<void(const ProducerEntry&)>& take);
PARTLOG_EXPORT FileFaultOrNone read_leader_epochs(const std::string& path, const std::function<void(const EpochEntry&)>& take);
PARTLOG_EXPORT FileFaultOrNone read_offset_checkpoint(const std::string& path,
                                                      const std::function<void(const OffsetOfPartition&)>& take);
// Of properties (comments and blank lines are passed over) and of partition.metadata. A file without line breaks that is no pair
// is given as it is, under no name: log-start-offset, quorum-state; so is each line of cuts and lost-offsets.
PARTLOG_EXPORT FileFaultOrNone read_pairs(const std::string& path,
                                          const std::function<void(std::string_view name, std::string_view value)>& take);

}  // namespace partlog

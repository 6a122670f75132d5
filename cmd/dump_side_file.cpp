#include "dump_side_file.h"

#include <array>

namespace partlog::cmd {
namespace {

using Column = RowOutput::Column;

constexpr std::array offset_index_columns = {Column{"offset", 12}, Column{"position"}};
constexpr std::array time_index_columns = {Column{"timestamp", 24}, Column{"offset"}};
constexpr std::array transaction_columns = {Column{"version"}, Column{"producerId", 12}, Column{"firstOffset", 12},
                                            Column{"lastOffset", 12}, Column{"lastStableOffset"}};
constexpr std::array producer_columns = {
    Column{"producerId", 12},        Column{"producerEpoch"},     Column{"coordinatorEpoch"},
    Column{"currentTxnFirstOffset"}, Column{"lastTimestamp", 24}, Column{"firstSequence"},
    Column{"lastSequence"},          Column{"lastOffset", 12},    Column{"offsetDelta"},
};
constexpr std::array epoch_columns = {Column{"epoch"}, Column{"startOffset"}};
constexpr std::array offset_columns = {Column{"topic", 24}, Column{"partition"}, Column{"offset"}};
constexpr std::array pair_columns = {Column{"name", 24}, Column{"value"}};

// Sequence numbers wrap at 2^31.
std::int32_t first_sequence(const ProducerEntry& entry) {
  if (entry.last_sequence < 0) return -1;
  return static_cast<std::int32_t>((entry.last_sequence - std::int64_t{entry.offset_delta}) & 0x7fffffff);
}

void producer_row(RowOutput& rows, const ProducerEntry& entry) {
  rows.begin();
  rows.number(entry.producer_id);
  rows.number(entry.producer_epoch);
  rows.number_or_null(entry.coordinator_epoch);
  rows.number_or_null(entry.current_transaction_first_offset.value);
  rows.time(entry.last_timestamp);
  rows.number_or_null(first_sequence(entry));
  rows.number_or_null(entry.last_sequence);
  rows.number_or_null(entry.last_offset.value);
  rows.number(entry.offset_delta);
  rows.end();
}

FileFaultOrNone dump_pairs(const std::string& path, RowOutput& rows) {
  rows.start(path, pair_columns);
  return read_pairs(path, [&](std::string_view name, std::string_view value) {
    rows.begin();
    name.empty() ? rows.null() : rows.bytes(Bytes(name));
    rows.bytes(Bytes(value));
    rows.end();
  });
}

FileFaultOrNone dump_kind(const std::string& path, FileKind kind, RowOutput& rows) {
  switch (kind) {
    case FileKind::offset_index:
      rows.start(path, offset_index_columns);
      return read_offset_index(path, [&](const OffsetEntry& entry) {
        rows.begin();
        rows.number(entry.offset.value);
        rows.number(entry.position.value);
        rows.end();
      });
    case FileKind::time_index:
      rows.start(path, time_index_columns);
      return read_time_index(path, [&](const TimeEntry& entry) {
        rows.begin();
        rows.time(entry.timestamp);
        rows.number(entry.offset.value);
        rows.end();
      });
    case FileKind::transaction_index:
      rows.start(path, transaction_columns);
      return read_transaction_index(path, [&](const TransactionEntry& entry) {
        rows.begin();
        rows.number(entry.version);
        rows.number(entry.producer_id);
        rows.number(entry.first_offset.value);
        rows.number(entry.last_offset.value);
        rows.number(entry.last_stable_offset.value);
        rows.end();
      });
    case FileKind::producer_snapshot:
      rows.start(path, producer_columns);
      return read_producer_snapshot(path, [&](const ProducerEntry& entry) { producer_row(rows, entry); });
    case FileKind::leader_epochs:
      rows.start(path, epoch_columns);
      return read_leader_epochs(path, [&](const EpochEntry& entry) {
        rows.begin();
        rows.number(entry.epoch);
        rows.number(entry.start_offset.value);
        rows.end();
      });
    case FileKind::offsets:
      rows.start(path, offset_columns);
      return read_offset_checkpoint(path, [&](const OffsetOfPartition& entry) {
        rows.begin();
        rows.bytes(Bytes(std::string_view(entry.topic)));
        rows.number(entry.partition);
        rows.number(entry.offset.value);
        rows.end();
      });
    default:
      return dump_pairs(path, rows);
  }
}

}  // namespace

void dump_side_file(const std::string& path, FileKind kind, RowOutput& rows) {
  if (const auto fault = dump_kind(path, kind, rows)) {
    throw Error(ErrorCode::damaged, path + " position " + std::to_string(fault->position.value) + ": " + fault->reason);
  }
}

}  // namespace partlog::cmd

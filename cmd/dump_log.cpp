#include "dump_log.h"

#include <array>

#include "messages.h"
#include "record_output.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

using Column = RowOutput::Column;

constexpr std::size_t offset_width = 10;
constexpr std::size_t time_width = 24;

constexpr int most_threads = 2;

// The names of Kafka's dump tool.
constexpr std::array batch_columns = {
    Column{"baseOffset", offset_width},
    Column{"lastOffset", offset_width},
    Column{"count", 6},
    Column{"baseSequence"},
    Column{"lastSequence"},
    Column{"producerId"},
    Column{"producerEpoch"},
    Column{"partitionLeaderEpoch"},
    Column{"isTransactional"},
    Column{"isControl"},
    Column{"deleteHorizonMs"},
    Column{"position", offset_width},
    Column{"timestamp", time_width},
    Column{"tstype", 9},
    Column{"size", 8},
    Column{"magic"},
    Column{"compresscodec"},
    Column{"crc", offset_width},
    Column{"isvalid"},
};

constexpr std::array record_columns = {
    Column{"offset", offset_width},
    Column{"timestamp", time_width},
    Column{"tstype", 9},
    Column{"sequence"},
    Column{"controlType", 15},
    Column{"coordinatorEpoch"},
    Column{"headers"},
    Column{"key", 12},
    Column{"value"},
};

// Keys and values of control records (Kafka's ControlRecordType and EndTransactionMarker): int16 version, int16 type; and for the
// end of a transaction int16 version, int32 epoch of the coordinator.
constexpr std::size_t control_type_at = 2;
constexpr std::size_t control_key_size = 4;
constexpr std::size_t coordinator_epoch_at = 2;
constexpr std::size_t marker_size = 6;
constexpr std::array<std::string_view, 7> control_types = {"ABORT",           "COMMIT",        "LEADER_CHANGE", "SNAPSHOT_HEADER",
                                                           "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS"};
constexpr std::size_t first_that_ends_no_transaction = 2;

std::int64_t big_endian(std::string_view bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return size == 2 ? static_cast<std::int16_t>(value) : static_cast<std::int32_t>(value);
}

std::string at(const std::string& path, Position position, Offset offset) {
  return path + " position " + std::to_string(position.value) + " (offset " + std::to_string(offset.value) + "): ";
}

// TOPIC-N/FILE, as a broker has it, or TOPIC/N/FILE.
std::string_view topic_of(std::string_view path) {
  const auto take_last = [&] {
    const auto slash = path.rfind('/');
    const auto last = slash == std::string_view::npos ? path : path.substr(slash + 1);
    path = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
    return last;
  };
  take_last();
  const auto directory = take_last();
  const auto dash = directory.rfind('-');
  return dash == std::string_view::npos ? take_last() : directory.substr(0, dash);
}

}  // namespace

void LogDump::damaged(const SegmentFile& file, Position position, Offset offset, const std::string& reason) {
  output_.flush();
  complain(at(file.path(), position, offset) + reason);
  outcome_.fail(status_damaged);
}

void LogDump::file(const std::string& path, const DumpRange& range) {
  InspectOptions options;
  options.threads = records_ ? 0 : most_threads;
  SegmentFile file(path, options);
  if (range.from_position) file.seek_position({*range.from_position});
  if (range.from_offset && !range.from_position) file.seek_offset({*range.from_offset});
  decoding_ = decode_ ? coordinator_topic(topic_of(path)) : std::nullopt;
  records_ ? rows_.start(path, record_columns) : rows_.start(path, batch_columns);
  show(file, range);
}

void LogDump::fail(const Error& error) {
  output_.flush();
  outcome_.fail(error);
}

void LogDump::show(SegmentFile& file, const DumpRange& range) {
  const auto from_position = range.from_position.value_or(0);
  const auto to_position = range.to_position.value_or(INT64_MAX);
  const auto from_offset = range.from_offset.value_or(INT64_MIN);
  const auto to_offset = range.to_offset.value_or(INT64_MAX);
  while (!stop_requested()) {
    const auto step = file.next();
    const auto& finding = file.finding();
    if (step == SegmentFile::Step::end || finding.position.value > to_position) return;
    if (step == SegmentFile::Step::batch) {
      const auto& batch = file.batch();
      const bool is_sound = batch.is_valid && finding.reason.empty();
      if (batch.position.value < from_position) continue;
      if (is_sound && batch.last_offset.value < from_offset) continue;
      if (is_sound && batch.base_offset.value > to_offset) return;
      records_ ? record_rows(file, range) : batch_row(batch);
      if (batches_++ == 0) output_.flush();
      if (!finding.reason.empty()) damaged(file, finding.position, finding.expected, finding.reason);
    } else if (finding.end.value > from_position) {
      const auto size = counted(static_cast<std::uint64_t>(finding.end - finding.position), "byte");
      if (step == SegmentFile::Step::damage) {
        damaged(file, finding.position, finding.expected, finding.reason + "; " + size + " passed over");
      } else {
        output_.flush();
        notice(at(file.path(), finding.position, finding.expected) + "a torn tail of " + size + ": " + finding.reason);
      }
    }
  }
}

void LogDump::batch_row(const BatchInfo& batch) {
  rows_.begin();
  batch.count < 0 ? rows_.null() : rows_.number(batch.base_offset.value);
  rows_.number(batch.last_offset.value);
  rows_.number_or_null(batch.count);
  rows_.number_or_null(batch.base_sequence);
  rows_.number_or_null(batch.sequence(batch.last_offset - batch.base_offset));
  rows_.number_or_null(batch.producer_id);
  rows_.number_or_null(batch.producer_epoch);
  rows_.number_or_null(batch.leader_epoch);
  rows_.truth(batch.is_transactional());
  rows_.truth(batch.is_control());
  const auto horizon = batch.delete_horizon();
  rows_.time(horizon.value_or(no_timestamp));
  rows_.number(batch.position.value);
  rows_.time(batch.max_timestamp);
  rows_.word(timestamp_type_name(batch.timestamp_type()));
  rows_.number(batch.size);
  rows_.number(batch.magic);
  rows_.word(compression_name(batch.compression()));
  rows_.number(batch.crc);
  rows_.truth(batch.is_valid);
  rows_.end();
}

void LogDump::record_rows(SegmentFile& file, const DumpRange& range) {
  const auto& batch = file.batch();
  const bool all = range.whole_batches || (!range.from_offset && !range.to_offset);
  for (auto records = file.records(); !records.empty(); records = file.records()) {
    for (const auto& record : records) {
      const bool is_inside = all || (record.offset.value >= range.from_offset.value_or(INT64_MIN) &&
                                     record.offset.value <= range.to_offset.value_or(INT64_MAX));
      if (is_inside) record_row(batch, record);
    }
  }
  if (!file.records_fault().empty()) damaged(file, batch.position, file.records_fault_offset(), file.records_fault());
}

void LogDump::record_row(const BatchInfo& batch, const Record& record) {
  rows_.begin();
  rows_.number(record.offset.value);
  rows_.time(record.timestamp);
  rows_.word(timestamp_type_name(batch.timestamp_type()));
  rows_.number_or_null(batch.sequence(record.offset - batch.base_offset));
  control_cells(batch, record);
  rows_.headers(record.headers);
  key_and_value(batch, record);
  rows_.end();
}

void LogDump::control_cells(const BatchInfo& batch, const Record& record) {
  if (!batch.is_control() || record.key.size() < control_key_size) {
    rows_.null();
    rows_.null();
    return;
  }
  const auto type = big_endian(record.key.view(), control_type_at, 2);
  const bool is_known = type >= 0 && type < static_cast<std::int64_t>(control_types.size());
  is_known ? rows_.word(control_types[static_cast<std::size_t>(type)]) : rows_.word(std::to_string(type));
  const bool ends_transaction = is_known && type < static_cast<std::int64_t>(first_that_ends_no_transaction);
  if (ends_transaction && record.value.size() >= marker_size) {
    rows_.number(big_endian(record.value.view(), coordinator_epoch_at, 4));
  } else {
    rows_.null();
  }
}

void LogDump::key_and_value(const BatchInfo& batch, const Record& record) {
  const bool decoding = decoding_ && !batch.is_control();
  json_.clear();
  decoding&& decode_coordinator_key(*decoding_, record.key, json_) ? rows_.json(json_) : rows_.bytes(record.key);
  json_.clear();
  decoding&& decode_coordinator_value(*decoding_, record.key, record.value, json_) ? rows_.json(json_)
                                                                                   : rows_.bytes(record.value);
}

}  // namespace partlog::cmd

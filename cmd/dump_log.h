// `partlog dump` of a file of batches: its batches, or the records in them.
#pragma once

#include <optional>
#include <string>

#include "exit_status.h"
#include "output.h"
#include "partlog/coordinator_record.h"
#include "partlog/segment_file.h"
#include "row_output.h"

namespace partlog::cmd {

// Both ends included. Batches that lie partly inside are in; of their records only those inside.
struct DumpRange {
  std::optional<std::int64_t> from_offset, to_offset;
  std::optional<std::int64_t> from_position, to_position;
  bool whole_batches = false;  // all records of a batch that lies partly inside
};

class LogDump {
 public:
  LogDump(Output& output, RowOutput& rows, Outcome& outcome, bool records, bool decode)
      : output_(output), rows_(rows), outcome_(outcome), records_(records), decode_(decode) {}

  // Goes on behind damage, which becomes a line on stderr and the outcome. Error if the file cannot be opened or read. Ends early
  // once a signal asked for it.
  void file(const std::string& path, const DumpRange& range);
  // What could not be listed, told behind what was.
  void fail(const Error& error);

  std::uint64_t batches() const { return batches_; }

 private:
  void show(SegmentFile& file, const DumpRange& range);
  void batch_row(const BatchInfo& batch);
  void record_rows(SegmentFile& file, const DumpRange& range);
  void record_row(const BatchInfo& batch, const Record& record);
  void control_cells(const BatchInfo& batch, const Record& record);
  void key_and_value(const BatchInfo& batch, const Record& record);
  void damaged(const SegmentFile& file, Position position, Offset offset, const std::string& reason);

  Output& output_;
  RowOutput& rows_;
  Outcome& outcome_;
  bool records_;
  bool decode_;
  std::optional<CoordinatorTopic> decoding_;  // the file's
  std::string json_;
  std::uint64_t batches_ = 0;
};

}  // namespace partlog::cmd

// Batches that stand one behind the other in a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "partlog/segment_file.h"

namespace partlog::inspect {

// Their offsets rise.
struct Run {
  std::size_t file = 0;  // which of the sources
  std::int64_t position = 0;
  std::int64_t end = 0;
  Offset first;
  Offset next;
  // Of the only batch: where what is around it would have it, as long as it is not decided.
  std::optional<Offset> place;
  bool is_exact = false;  // it fills just the room there
  // What is to be written instead, into the only batch.
  std::optional<Offset> offset;
  std::optional<std::int32_t> epoch;
  std::optional<std::size_t> bit;  // to be flipped, counted from the start of the batch
  bool fits = false;               // nothing around it says that its offsets are wrong
  bool is_strange = false;         // they do not fit where it stands

  bool is_changed() const { return offset || epoch || bit; }
  Offset start() const { return offset.value_or(first); }
  Offset stop() const { return start() + (next - first); }
};

// Goes through the batches of a run.
class RunCursor {
 public:
  RunCursor(const Run& run, const std::string& path, const InspectOptions& options) : run_(run), file_(path, options) {
    file_.seek({run.position});
    next();
  }

  void next() { is_there_ = file_.next() == SegmentFile::Step::batch && file_.batch().position.value < run_.end; }
  bool is_there() const { return is_there_; }
  const BatchInfo& info() const { return file_.batch(); }
  // The batch as a run of its own.
  Run batch() const;

 private:
  Run run_;
  SegmentFile file_;
  bool is_there_ = false;
};

// The first batch of a run that is to have an offset from `first` to below `next`.
std::optional<BatchInfo> batch_in(const Run& run, const std::string& path, const InspectOptions& options, Offset first,
                                  Offset next);

}  // namespace partlog::inspect

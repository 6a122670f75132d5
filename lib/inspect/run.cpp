#include "inspect/run.h"

namespace partlog::inspect {

Run RunCursor::batch() const {
  const auto& info = file_.batch();
  Run one = run_;
  one.position = info.position.value;
  one.end = one.position + info.size;
  one.first = info.base_offset;
  one.next = info.next_offset();
  return one;
}

std::optional<BatchInfo> batch_in(const Run& run, const std::string& path, const InspectOptions& options, Offset first,
                                  Offset next) {
  if (run.start() >= next || run.stop() <= first) return std::nullopt;
  for (RunCursor at(run, path, options); at.is_there(); at.next()) {
    if (run.offset || (at.info().base_offset < next && at.info().next_offset() > first)) return at.info();
  }
  return std::nullopt;
}

}  // namespace partlog::inspect

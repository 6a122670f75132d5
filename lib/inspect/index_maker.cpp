#include "inspect/index_maker.h"

#include "format/batch_header.h"

namespace partlog::inspect {

void make_indexes(const std::string& log, const log::SegmentFiles& into, std::int64_t interval_bytes, bool closed) {
  log::IndexWriter writer(into, interval_bytes);
  writer.reset();
  SegmentFile file(log);
  for (auto step = file.next(); step != SegmentFile::Step::end && step != SegmentFile::Step::torn_tail; step = file.next()) {
    if (step != SegmentFile::Step::batch || !file.finding().reason.empty()) continue;
    const auto& batch = file.batch();
    format::BatchHeader header;  // what an index asks of it
    header.base_offset = batch.base_offset;
    header.last_offset_delta = static_cast<std::int32_t>(batch.last_offset - batch.base_offset);
    header.max_timestamp = batch.max_timestamp;
    writer.add(header, batch.position.value);
  }
  if (closed) writer.close_segment();
  writer.sync();
}

}  // namespace partlog::inspect

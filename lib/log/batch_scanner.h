// Walks the record batches of one segment file.
#pragma once

#include <cstdint>
#include <span>

#include "format/record_batch.h"
#include "log/window.h"

namespace partlog::log {

enum class Scan {
  batch,    // a whole batch with the right checksum and an offset not below the expected one
  end,      // the file ends exactly here
  partial,  // the file ends inside what may be a batch
  invalid,  // what stands here is no batch; see fault()
  old,      // a message of format v0 or v1 stands here
};

class BatchScanner {
 public:
  // Offsets of batches must not be below `expected` and rise from there.
  BatchScanner(const os::File& file, std::int64_t position, Offset expected, std::size_t window_bytes, bool mapped = false)
      : window_(file, window_bytes, mapped), position_(position), next_position_(position), expected_(expected) {}

  // Looks at the batch behind the last one. After anything but Scan::batch the scanner stays where it is.
  Scan next();
  // Drops what was read ahead, so that the next call sees the file as it is then.
  void refresh() { window_.forget(); }

  const format::BatchHeader& header() const { return header_; }
  std::span<const char> batch() const { return batch_; }  // valid until the next call
  std::int64_t position() const { return position_; }     // of the last batch looked at, or of what is none
  std::int64_t next_position() const { return next_position_; }
  Offset expected() const { return expected_; }
  const char* fault() const { return fault_; }

 private:
  bool is_old_message(std::span<const char> bytes);
  bool contradicted_by_next(std::size_t size);
  bool offset_is_credible(std::size_t size);

  Window window_;
  std::int64_t position_;
  std::int64_t next_position_;
  Offset expected_;
  format::BatchHeader header_;
  std::span<const char> batch_;
  const char* fault_ = "";
};

}  // namespace partlog::log

// Walks the batches of one segment file, of whatever message format: one may hold all of them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "format/batch_header.h"
#include "format/message_set.h"
#include "log/window.h"

namespace partlog::log {

enum class Scan {
  batch,    // a whole batch with the right checksum and an offset not below the expected one
  end,      // the file ends exactly here
  partial,  // the file ends inside what may be a batch of format v2, which is what a writer that died leaves
  invalid,  // what stands here is no batch; see fault()
};

// The checksum of the batch at a position, piece by piece: what a header promises may be more than one wants to hold.
std::uint32_t checksum_in_pieces(Window& window, const format::BatchHeader& header, std::int64_t position);
// The same of the bytes from one position to another, behind those that made `sum`.
std::uint32_t extend_in_pieces(Window& window, const format::BatchHeader& header, std::uint32_t sum, std::int64_t from,
                               std::int64_t end);

class BatchScanner {
 public:
  // Offsets of batches must not be below `expected` and rise from there.
  BatchScanner(const os::File& file, std::int64_t position, Offset expected, std::size_t window_bytes, bool mapped = false)
      : file_(&file), window_(file, window_bytes, mapped), position_(position), next_position_(position), expected_(expected) {}

  // Looks at the batch behind the last one. After anything but Scan::batch the scanner stays where it is.
  Scan next();
  // Goes on there, as if it had begun there.
  void restart(std::int64_t position, Offset expected) {
    position_ = next_position_ = position;
    expected_ = expected;
  }
  // Drops what was read ahead, so that the next call sees the file as it is then.
  void refresh() { window_.forget(); }
  // Bytes held of what was read.
  std::size_t memory() const { return window_.memory() + set_.memory(); }

  // Of a wrapper (formats v0 and v1) with the offsets of the messages inside.
  const format::BatchHeader& header() const { return header_; }
  std::span<const char> batch() const { return batch_; }  // valid until the next call
  std::int64_t position() const { return position_; }     // of the last batch looked at, or of what is none
  std::int64_t next_position() const { return next_position_; }
  Offset expected() const { return expected_; }
  const char* fault() const { return fault_; }
  // The fault of a sound batch, header(): it reaches up to the limit.
  bool reaches_too_far() const { return fault_ == too_far; }
  // The fault of a batch whose checksum is right: its offsets are not those that belong there. No writer that died leaves that.
  bool is_misplaced();

  // What stands before this position ends there, with the offset before this one (recovery-point); what is behind it was appended
  // without gaps. Nothing else tells, at the end of the log, whether a gap in front of a batch is one, or its base offset is
  // damaged, which stands outside the checksum. `is_exact`: what the scanner expects first, is.
  void set_known(std::int64_t position, Offset next, bool is_exact) {
    known_position_ = position;
    known_next_ = next;
    inexact_at_ = is_exact ? -1 : next_position_;
  }
  // A batch that reaches up to this offset is none: another segment begins there.
  void set_limit(Offset limit) { limit_ = limit; }
  // Nor is a larger one: it would have to be held whole.
  void set_largest(std::size_t size) { largest_ = size; }
  // For who asks for headers alone: of large batches there is no batch().
  void hold_no_large_batches() { holds_large_ = false; }

 private:
  static constexpr const char* too_far = "its offsets reach into the next segment";

  Scan cut_short(bool is_v2, const char* why);
  Scan invalid(const char* why);
  format::BatchHeader looked_into(const format::BatchHeader& wrapper, std::span<const char> message);
  std::span<const char> view_of(std::size_t size);
  bool contradicted_by_next(std::size_t size);
  bool offset_is_credible(std::size_t size);
  bool is_as_known() const;

  const os::File* file_;
  Window window_;
  std::int64_t position_;
  std::int64_t next_position_;
  Offset expected_;
  Offset limit_{std::numeric_limits<std::int64_t>::max()};
  std::int64_t known_position_ = 0;
  Offset known_next_;
  std::int64_t inexact_at_ = -1;
  std::size_t largest_ = std::numeric_limits<std::size_t>::max();
  bool holds_large_ = true;
  format::BatchHeader header_;
  std::span<const char> batch_;
  format::MessageSet set_;  // the wrapper last looked into
  const char* fault_ = "";
};

}  // namespace partlog::log

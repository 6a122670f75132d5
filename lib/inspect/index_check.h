// Compares the indexes of a segment with its batches, given one after the other. To be opened before the segment: what an index
// says then, the segment holds already.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "format/index_entry.h"
#include "os/file.h"
#include "partlog/partition_check.h"

namespace partlog::inspect {

// The entries of an index file, of `size` bytes each, as it is when it is opened.
class EntryCursor {
 public:
  EntryCursor(const std::string& path, std::size_t size);

  bool is_there() const { return file_.has_value() || !unreadable_.empty(); }
  // Why nothing can be read from it; empty: it can, as far as it was tried.
  const std::string& unreadable() const { return unreadable_; }
  std::int64_t file_size() const { return file_size_; }
  bool is_empty() const { return file_ && file_size_ == 0; }
  // The bytes of the entry in hand; nullptr behind the last one.
  const char* entry();
  void advance() { at_ += static_cast<std::int64_t>(size_); }
  Position position() const { return {at_}; }
  // The entry in hand is all zeros, and so is the rest: as a running broker has it.
  bool is_padding();

 private:
  const char* read_entry();

  std::string unreadable_;
  std::optional<os::File> file_;
  std::size_t size_;
  std::int64_t file_size_ = 0;
  std::int64_t at_ = 0;
  std::int64_t read_at_ = 0;
  std::vector<char> bytes_;
};

// The first thing wrong with an index, and how many more there are.
class IndexFault {
 public:
  void add(Position position, const char* reason);
  // `entries`: those of the file.
  std::optional<CheckFinding> finding(const std::string& path, const EntryCursor& entries) const;

 private:
  std::optional<Position> position_;
  std::string reason_;
  std::uint64_t count_ = 0;
};

class OffsetIndexCheck {
 public:
  OffsetIndexCheck(const std::string& path, Offset base);

  void add(const BatchInfo& batch);
  // The bytes from `position` to `end` are no sound batch: entries for them are not judged.
  void pass_over(Position position, Position end);
  std::optional<CheckFinding> finish();
  // `worth_entries`: for a segment of this size there should be some in it.
  bool is_missing(bool worth_entries) const { return !entries_.is_there() || (worth_entries && entries_.is_empty()); }

 private:
  std::optional<format::OffsetIndexEntry> next();
  void close();

  std::string path_;
  Offset base_;
  EntryCursor entries_;
  IndexFault fault_;
  // The entry that covers the batches from its position on.
  std::optional<format::OffsetIndexEntry> open_;
  Position open_at_;
  bool is_matched_ = false;
  Offset last_;
};

class TimeIndexCheck {
 public:
  TimeIndexCheck(const std::string& path, Offset base);

  void add(const BatchInfo& batch);
  void pass_over() { is_behind_damage_ = true; }
  std::optional<CheckFinding> finish();
  bool is_missing() const { return !entries_.is_there(); }

 private:
  std::optional<format::TimeIndexEntry> next();

  std::string path_;
  Offset base_;
  EntryCursor entries_;
  IndexFault fault_;
  Timestamp largest_{std::numeric_limits<std::int64_t>::min()};
  std::optional<format::TimeIndexEntry> before_;
  bool is_behind_damage_ = false;
};

}  // namespace partlog::inspect

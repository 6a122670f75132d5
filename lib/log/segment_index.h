// The sparse indexes beside a segment's log file (.index and .timeindex), as a Kafka broker keeps them.
//
// For reading they are hints: every position is checked against the batch that stands there. For writing, the entries depend on
// the batches alone, whichever process wrote them (org.apache.kafka.storage.internals.log.LogSegment.append): a batch gets an
// entry if it starts more than index.interval.bytes behind the batch indexed last, and the time index an entry there if the
// largest timestamp rose since its last one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "format/index_entry.h"
#include "format/record_batch.h"
#include "os/file.h"
#include "partlog/types.h"

namespace partlog::log {

// A file of batches. Error(damaged) where something that is no file has its name: a directory, a pipe, a link to nothing.
os::File open_batches(const std::string& path, os::File::Mode mode);
bool is_no_file(const std::string& path);

// Paths of a segment's files.
struct SegmentFiles {
  std::string directory;
  Offset base;
  std::string file = {};  // NOLINT(readability-redundant-member-init): may be left out. The log, where that has another name:
                          // nothing belongs to it then
  std::string log() const;
  os::File open_log(os::File::Mode mode) const { return open_batches(log(), mode); }
  std::string index() const;
  std::string time_index() const;
};

// Looks entries up without trusting them. Any file may be missing, short, long, zero-padded or wrong. Each is opened when it is
// asked for.
class IndexReader {
 public:
  explicit IndexReader(SegmentFiles files) : files_(std::move(files)) {}

  // The last entry with an offset not above `offset`.
  std::optional<format::OffsetIndexEntry> floor(Offset offset) const;
  // The entry before the one at this position.
  std::optional<format::OffsetIndexEntry> last() const;
  // The last time index entry with a timestamp below `time`.
  std::optional<format::TimeIndexEntry> time_below(Timestamp time) const;
  std::optional<format::TimeIndexEntry> last_time() const;

 private:
  struct Opened {
    std::optional<os::File> file;
    std::int64_t entries = 0;  // without zero padding
  };
  const Opened& index() const;
  const Opened& time_index() const;
  format::OffsetIndexEntry entry(std::int64_t n) const;
  format::TimeIndexEntry time_entry(std::int64_t n) const;

  SegmentFiles files_;
  mutable std::optional<Opened> index_;
  mutable std::optional<Opened> time_;
};

// Writes both indexes of the active segment. Used under the append lock only.
class IndexWriter {
 public:
  IndexWriter(const SegmentFiles& files, std::int64_t interval_bytes);

  // Where the log must be read on from to know the state: behind the batch of the last entry, if the last entries of both indexes
  // are right according to `log`; else from 0, with both indexes emptied.
  struct Resume {
    std::int64_t position;
    Offset expected;
  };
  Resume resume(const os::File& log);

  // Every batch from there on, in order, read or appended. Writes entries that are due.
  void add(const format::BatchHeader& header, std::int64_t position);
  // Drops all entries and starts anew at position 0.
  void reset();
  // The last time index entry of a segment that is being closed, or that others have closed.
  void close_segment();
  // Cuts what resume() left behind the entries that are due. Only for the active segment, once the log has been read to its end.
  void trim();

  // Makes the entries written here durable.
  void sync();

 private:
  std::optional<Resume> resume_at_last_entry(const os::File& log);
  void drop_time_entries_behind(Offset offset);
  bool last_time_entry_is_right(const os::File& log, const format::BatchHeader& indexed) const;
  format::TimeIndexEntry last_time_entry() const;
  void add_time_entry();

  Offset base_;
  std::int64_t interval_;
  os::File index_;
  os::File time_;
  std::int64_t index_size_;
  std::int64_t time_size_;
  bool unsynced_ = false;
  std::int64_t indexed_position_ = 0;   // of the batch indexed last; the segment's start before there is one
  format::TimeIndexEntry largest_;      // so far in the log
  Timestamp last_time_ = no_timestamp;  // of the last time index entry
  bool untrimmed_ = false;              // the time index goes on behind time_size_
};

}  // namespace partlog::log

// Looks into one file of batches, ours or a Kafka broker's, of any message format, whatever state it is in: a segment (.log), a
// snapshot of KRaft metadata (.checkpoint). Nothing is written and no lock is taken; a writer may be at work meanwhile.
//
// Where other readers stop, this one goes on: it says what is wrong at which position, and looks for the next batch behind it.
// What a torn tail is, which is no damage, it decides as a writer does; but a batch at the end that is whole and has a wrong
// checksum is damage, unless the host has restarted since it was written.
//
// A SegmentFile belongs to one thread. Memory: a window of the file, and at most `largest_batch` bytes for a batch that is larger
// and `decompression_limit` bytes for one whose records are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partlog/error.h"
#include "partlog/export.h"
#include "partlog/record.h"
#include "partlog/types.h"

namespace partlog {

// The header of a batch, with where it stands. In the message formats 0 and 1 a message, plain or compressed, is a batch: it has
// no epoch, no producer, and of a compressed one the first offset and the count are known only from what is inside.
struct BatchInfo {
  Position position;
  std::int64_t size = 0;  // of the whole batch, in bytes
  std::int8_t magic = 2;  // the message format
  Offset base_offset;
  Offset last_offset;
  std::int32_t count = 0;  // of records; -1: it is compressed, of an old format, and cannot be unpacked
  std::int32_t leader_epoch = no_epoch;
  std::int16_t attributes = 0;
  Timestamp base_timestamp;  // with delete_horizon(): that one
  Timestamp max_timestamp;
  std::int64_t producer_id = -1;
  std::int16_t producer_epoch = -1;
  std::int32_t base_sequence = -1;
  std::uint32_t crc = 0;
  bool is_valid = true;  // the checksum is right

  Offset next_offset() const { return last_offset + 1; }
  Compression compression() const { return static_cast<Compression>(attributes & 7); }
  TimestampType timestamp_type() const {
    if (magic == 0) return TimestampType::none;
    return (attributes & 8) != 0 ? TimestampType::log_append_time : TimestampType::create_time;
  }
  bool is_transactional() const { return (attributes & 16) != 0; }
  bool is_control() const { return (attributes & 32) != 0; }
  // The time from which on tombstones and markers in this batch may go (KIP-534).
  std::optional<Timestamp> delete_horizon() const {
    if ((attributes & 64) == 0) return std::nullopt;
    return base_timestamp;
  }
  // The sequence number `delta` offsets behind the first; -1 for a batch without. They wrap at 2^31.
  std::int32_t sequence(std::int64_t delta) const {
    if (base_sequence < 0) return -1;
    return static_cast<std::int32_t>((base_sequence + delta) & 0x7fffffff);
  }
};

// The paths of the segments of a partition directory, ours or a broker's, by ascending base offset. Error(not_found), Error(io).
struct SegmentPath {
  std::string path;
  Offset base;
};
PARTLOG_EXPORT std::vector<SegmentPath> segment_paths(const std::string& partition_directory);
// Where a partition of a topic lies.
PARTLOG_EXPORT std::string partition_directory(const std::string& topic_directory, int partition);

PARTLOG_EXPORT const char* compression_name(Compression codec);  // "none", "gzip", "snappy", "lz4", "zstd"

struct InspectOptions {
  std::optional<Offset> next_base;        // where the next segment begins; without it the directory is listed
  std::size_t window_bytes = 256 << 10;   // read size
  std::size_t largest_batch = 48u << 20;  // of a larger one the checksum is told, but not the records
  // Of threads, which no signal reaches, that work out checksums ahead where much is read in a row. It pays only where the
  // records are not asked for: they are read once more then.
  int threads = 0;
  std::size_t decompression_limit = 64u << 20;  // largest uncompressed batch; unpacking may take twice that for a moment
  // Behind damage batches of any offsets are looked for, not only such as may go on with those in front: for files that may hold
  // what belongs into others.
  bool expect_any_offsets = false;
};

class PARTLOG_EXPORT SegmentFile {
 public:
  // Error(not_found), Error(io). The file is looked at as far as it goes now.
  explicit SegmentFile(const std::string& path, InspectOptions options = {});
  ~SegmentFile();
  SegmentFile(SegmentFile&&) noexcept;
  SegmentFile& operator=(SegmentFile&&) noexcept;

  const std::string& path() const;
  std::int64_t size() const;  // in bytes, when it was opened
  // From the file's name; nullopt if that names none.
  std::optional<Offset> base_offset() const;
  // A later segment stands beside it, so that it is written no more and its end is no torn tail.
  bool has_successor() const;

  // Goes on at this position, where a batch should start.
  void seek(Position position);
  // Goes on at a batch at or before the one that holds `offset` or is the first behind it: found by the .index beside the file
  // where that is right, else the start of the file. At most a few thousand batches lie between.
  void seek_offset(Offset offset);
  // The same for the batch that starts at `position` or is the first behind it.
  void seek_position(Position position);

  enum class Step {
    batch,      // see batch(); finding() is not empty if something is wrong with it
    damage,     // what stands here up to finding().end is no batch; the next step is behind it
    torn_tail,  // the rest of the file is what a writer that died left, or was never written to; see finding()
    end,
  };
  Step next();

  const BatchInfo& batch() const;  // valid until the next call

  // What is wrong, on damage, a torn tail, or a batch.
  struct Finding {
    Position position;
    Position end;
    Offset expected;                            // offsets up to here were seen, or are of no interest
    std::string reason;                         // empty: nothing is wrong
    std::optional<Offset> next = std::nullopt;  // of damage up to the end of the file: behind its offsets, as far as it tells
  };
  const Finding& finding() const;

  // Some records of the batch, in order; empty behind the last one, and where the checksum is wrong. Control records are among
  // them. They point into buffers here: valid until the next call. Look at records_fault() behind the last one.
  std::span<const Record> records();
  // Why not all records were given, empty if they were.
  const std::string& records_fault() const;
  // The offset of the first record that was not given then.
  Offset records_fault_offset() const;

 private:
  class PARTLOG_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace partlog

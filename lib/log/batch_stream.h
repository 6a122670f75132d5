// The reading side of one partition: its batches in offset order, across segments, without a lock and without writing.
//
// Tail and damage are told apart as a writer does. Before anything is called damage it is read again from a freshly opened file.
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "log/batch_scanner.h"
#include "log/partition_directory.h"
#include "log/segment_index.h"
#include "os/file.h"
#include "partlog/reader.h"

namespace partlog::log {

class BatchStream {
 public:
  using TakeLoss = std::function<void(const LostRange&)>;

  BatchStream(PartitionDirectory directory, std::size_t window_bytes)
      : directory_(std::move(directory)), window_bytes_(window_bytes) {}

  // From now on damage does not end the reading: what is left out is told once the next batch shows how far it goes. In a log
  // that was cut off in this way position() moves behind it.
  void pass_over_damage(TakeLoss take) { take_loss_ = std::move(take); }
  // A larger batch is damage.
  void set_largest_batch(std::size_t size) { largest_batch_ = size; }
  // For who asks for headers alone: of large batches there is no batch().
  void hold_no_large_batches() { holds_large_ = false; }
  // Called with a line about offsets that are not there, for reasons that cannot be told.
  void tell_of_holes(Notice notice) { notice_ = std::move(notice); }

  const PartitionDirectory& directory() const { return directory_; }

  // The end offset: behind the last whole batch, never below the log start.
  Offset end();
  // From now on the log ends where its files end now, at whatever offset that is.
  void end_here();

  // The next batch will be the one that holds `offset`, or the first behind it.
  void seek(Offset offset);
  Offset position() const { return position_; }
  // The caller is done with everything below `offset`.
  void advance(Offset offset) { position_ = offset; }

  // The next batch with offsets at or above position(), false at the end of the log as it is now. Error(offset_out_of_range) if
  // position() is below the log start or beyond the end; Error(damaged).
  bool next();
  // Looks whether the log is sound behind position(), as next() would. The position stays, unless damage is passed over. Where no
  // store is known of, a whole batch with a wrong checksum at the end is damage, too, and so is whatever a whole batch of any
  // offset follows: no writer that died leaves that, though in a store the next one will take it for a torn tail.
  void look_ahead();
  const format::BatchHeader& header() const { return open_->scanner.header(); }
  std::span<const char> batch() const { return open_->scanner.batch(); }
  // Bytes held of what was read. seek() gives them back.
  std::size_t memory() const { return open_ ? open_->scanner.memory() : 0; }
  // Of the batch, for messages.
  std::string place() const;
  struct Place {
    std::string path;
    Position position;
    Position end;
  };
  Place where() const { return {open_->file.path(), {open_->scanner.position()}, {open_->scanner.next_position()}}; }

  // Finds, by header and index, the first batch from the log start on whose largest timestamp is at or after `time`, and seeks to
  // it; false if there is none. To go on behind a batch found, seek behind it and scan with next(). What lies at or above `below`
  // is not looked for.
  bool seek_time(Timestamp time, std::optional<Offset> below = {});
  // The same for the first batch with the largest timestamp of all; false if there is no batch.
  bool seek_max_time();

 private:
  struct OpenSegment {
    OpenSegment(os::File f, Offset b, std::int64_t position, Offset expected, std::size_t window, bool mapped)
        : file(std::move(f)), id(file.status().id), base(b), scanner(file, position, expected, window, mapped) {}
    os::File file;
    os::FileId id;
    Offset base;
    BatchScanner scanner;
  };
  using Segment = std::unique_ptr<OpenSegment>;

  bool next_in_open_segments();
  void require_from(Offset start) const;
  void locate();
  bool is_beyond_end() const;
  Segment open(Offset base, bool has_successor, Offset from) const {
    return open(base, has_successor, from, IndexReader(directory_.segment(base)));
  }
  Segment open(Offset base, bool has_successor, Offset from, const IndexReader& index) const;
  Segment open_at(Offset base, std::int64_t position, Offset expected, bool mapped) const;
  static bool is_indexed_there(BatchScanner& scanner, Offset offset);
  os::FileStatus directory_in_place();
  const std::vector<Offset>& bases();
  const std::vector<Offset>& bases_listed_anew();
  const std::vector<Offset>& bases_around(Offset offset);
  void list(const os::FileStatus& directory);
  void leave_out_strays();
  bool is_stray(Offset base) const { return std::find(strays_.begin(), strays_.end(), base) != strays_.end(); }
  bool leave_out_if_empty(Offset base);
  void leave_out(Offset base);
  bool pass_over_no_file(Offset base);
  bool leave_out_no_file(Offset base);
  bool is_inside_segment(Offset base) const;
  void try_to_open(Offset base);
  bool leave_empty_segment();
  bool is_surely_empty(Offset base) const;
  void forget_listing();
  std::optional<format::RecoveryPoint> suspect() const;
  bool go_on_behind_segment();
  void reopen_fresh();
  std::optional<Offset> successor();
  std::optional<Offset> successor_among(const std::vector<Offset>& all) const;
  bool reread();
  bool is_end();
  bool behind_restart(Offset base, std::int64_t position) const;
  bool is_in_stable_part(Offset base, std::int64_t position) const;
  bool has_successor(Offset base) const;
  Offset limit_of(Offset base) const;
  bool damaged();
  void remember_misplaced(std::int64_t end);
  bool is_offset_believed() const;
  std::optional<Offset> behind_wrong_batch_at_end() const;
  void lose(const LostRange& range);
  void tell_loss(Offset next);
  void tell_elsewhere();
  void tell_ahead(Offset from, Offset below, Offset next);
  void tell_ahead_at_end();
  void tell_loss_at_end();
  void look_for_last_segment();
  void look_for_segment_of_index(Offset end);
  void look_at_hole(Offset from, Offset below);
  bool is_told_as_lost(Offset from, Offset below) const;
  void look_at_missing_start();
  void look_at_hole_inside(Offset from, Offset below);
  void missing(Offset from, Offset below, Offset segment);
  void missing(const std::string& path, std::int64_t position, Offset from, Offset below, const char* reason);
  std::optional<format::BatchHeader> batch_of(const format::TimeIndexEntry& entry, Offset base) const;
  template <class Look>
  bool look_behind_last_time(Offset base, Offset next, Look look) const;
  template <class Predicate>
  bool scan_segment(Offset from, std::optional<Offset> below, Predicate is_right);
  Offset end_behind_restart(const format::RecoveryPoint& point) const;
  static Offset end_of_segment(const OpenSegment& segment, BatchScanner& scanner);

  PartitionDirectory directory_;
  std::size_t window_bytes_;
  Offset position_;
  Segment open_;
  std::optional<Offset> leaving_for_;       // the segment to go on with once the open one has been read once more
  std::optional<os::FileId> directory_id_;  // as it was at first
  std::vector<Offset> bases_;
  std::vector<Offset> strays_;      // empty files, and no files, among the segments: left out of the listing as long as they are
  std::int64_t listed_change_ = 0;  // the directory's modification time when it was listed
  bool settled_ = false;            // and that was a while before
  bool end_is_open_ = false;        // whether the last segment is missing was not looked at since
  bool told_of_end_ = false;        // that it is
  Offset told_to_;                  // up to there, of what is no file, or is lost at the end
  Offset listed_end_;               // the listing shows all that lies below
  bool strict_ = false;             // look_ahead()
  bool holds_large_ = true;
  std::size_t largest_batch_ = std::numeric_limits<std::size_t>::max();
  bool fresh_ = false;              // network: opened anew since next() was called
  mutable bool suspicious_ = true;  // the host may have restarted since the recovery point was written
  struct Torn {
    Offset base;
    std::int64_t position;
    std::int64_t size;
  };
  bool told_of_hole_ = false;  // inside a segment
  TakeLoss take_loss_;
  Notice notice_;
  std::optional<LostRange> loss_;       // passed over, up to an offset that is not known yet
  std::optional<LostRange> elsewhere_;  // passed over, a sound batch in the place of others: of all of them what ends last
  std::optional<LostRange> ahead_;      // passed over, a batch that belongs behind others: whether it is there was not seen yet
  struct End {
    Offset base;
    std::int64_t position;
  };
  std::optional<End> end_here_;
  std::optional<Torn> torn_;  // known to be a torn tail, not damage, as long as the file has this size
};

}  // namespace partlog::log

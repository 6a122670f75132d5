// What lies in a partition directory beside the record batches, and which segments there are.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/checkpoint.h"
#include "log/segment_index.h"
#include "partlog/types.h"

namespace partlog::log {

// Of a missing segment.
inline constexpr const char* index_is_left =
    "this segment is missing; its index is there, which need not name all of its offsets";

class PartitionDirectory {
 public:
  // `network`: shared between hosts, where boot ids mean nothing.
  PartitionDirectory(std::string path, bool network) : path_(std::move(path)), network_(network) {}

  const std::string& path() const { return path_; }
  bool on_network() const { return network_; }
  SegmentFiles segment(Offset base) const { return {path_, base, file_}; }

  // Files that no store is known of: a partition directory, or one file of batches, whatever its name. Error(not_found).
  static PartitionDirectory of_files(const std::string& path);
  bool in_store() const { return in_store_; }
  bool is_single() const { return only_.has_value(); }
  // The directory around what may be a single segment in it.
  PartitionDirectory whole() const;
  // Whether all that was ever appended is still there from the log start on: nothing was compacted.
  bool is_dense() const { return dense_; }
  void set_dense(bool dense) { dense_ = dense; }

  // Base offsets of all segments, ascending.
  std::vector<Offset> segment_bases() const;
  // Of the segment that stands beside a single one, which is not read: where that one ends. What is in `strays` is none.
  std::optional<Offset> bound(const std::vector<Offset>& strays = {}) const;
  // Whether the file of the segment is there and empty.
  bool is_empty(Offset base) const;
  // Whether what has its name is no file.
  bool is_no_file(Offset base) const { return log::is_no_file(segment(base).log()); }
  // Which of the last segments, which are all empty, belong to the log, as the one before them ends at `end`: those that begin
  // there, and such behind it of which others know why: a repair, the log start, or that more was on stable storage.
  std::span<const Offset> in_log(std::span<const Offset> empty, Offset end) const;
  // The first index of either kind without its segment that begins in this range: somebody took the segment away, and no broker,
  // which renames both.
  std::optional<Offset> index_without_segment(Offset from, Offset below) const;
  // The same in front of all segments of a directory that does not say where it starts.
  std::optional<Offset> missing_start() const;
  // The same behind the last segment: its base offset, and the last offset that its indexes name.
  std::optional<std::pair<Offset, Offset>> missing_end(Offset last_base) const;
  // Of offsets in front of the first batch: whether they are known to have been here once, by an index that is left or the
  // recovery point. Not so where a broker's segments were put into a new topic.
  bool were_here(Offset from, Offset below) const;

  // The first offset readers may see; where nothing was stored about it, 0 in a store, else where the first segment begins, or
  // began.
  Offset log_start() const;
  // Whether that file is damaged: the log starts behind this end, and behind what was on stable storage. Where nothing was, it
  // may be told to start anywhere.
  bool starts_behind(Offset end) const;
  [[noreturn]] void throw_starts_behind(Offset end) const;  // Error(damaged)
  // Durable on return; under the append lock.
  void move_log_start(Offset start) const;
  // The epoch that a new batch carries: the last of leader-epoch-checkpoint, 0 without one.
  std::int32_t leader_epoch() const;

  // nullopt where there is none (a broker's own directory): nothing is known to be unstable then. What a power failure has made
  // unreadable is taken for the start of the last segment but one, of an unknown boot: a roll syncs what lies before the segment
  // that it closes.
  std::optional<format::RecoveryPoint> recovery_point() const;
  // Whether this file of a segment is as long as it was when all of it was on stable storage: what is invalid in it is damage
  // then, and not what a writer that died has left. False where that is not known.
  bool is_as_synced(Offset base, std::int64_t file_size) const;
  // The recovery point for those who only read; nullopt where it may not be read, and on a network file system, where what a
  // reader sees of the log may be older.
  std::optional<format::RecoveryPoint> point_for_reader() const;
  // The same if it lies in this segment, and no repair is about to replace it.
  std::optional<format::RecoveryPoint> point_in(Offset segment) const;
  // Its offset.
  std::optional<Offset> stable_end() const;
  // Moves the recovery point forward, never back; under the append lock. `durable`: synced with its name.
  void move_recovery_point(Offset offset, Offset segment, std::int64_t position, bool durable) const;
  // The log was cut before the recovery point: moves it back to there, durably.
  void move_recovery_point_back(Offset offset, Offset segment, std::int64_t position) const;
  // What the file says when everything up to there is on stable storage now.
  std::string recovery_point_text(Offset offset, Offset segment, std::int64_t position) const;
  // The recovery point if the host has restarted since it was written (or another host wrote it): everything behind it may have
  // holes, and the first invalid batch there is where the log ended.
  std::optional<format::RecoveryPoint> suspect_from() const;
  // Whether that is so of one that was read already.
  bool is_of_another_boot(const format::RecoveryPoint& point) const;

  // The same for those who only read: where that file may not be read, nothing is known of a restart.
  std::optional<format::RecoveryPoint> suspect_if_readable() const;

  std::vector<format::Cut> cuts() const;
  // Adds a line of this boot; durable.
  void add_cut(Offset offset) const;
  // As above, unless a recovery that did not get to its end has just done so.
  void add_cut_of_restart(Offset offset) const;

  // What repairs could not save, by ascending offsets.
  std::vector<format::LostOffsets> lost_offsets() const;
  // Whether a repair is about to put files in place.
  bool is_under_repair() const;
  // Whether a repair has told all of these offsets as lost.
  bool are_known_lost(Offset from, Offset below) const;

  // Set after a failed sync: what the device holds is unknown, so nothing may be appended behind it.
  bool sync_failed() const;
  void mark_sync_failed(const std::string& reason) const;
  void clear_sync_failed() const;  // durable

 private:
  bool is_stray(Offset base, Offset end) const;
  std::vector<Offset> bases_with(std::string_view suffix) const;
  std::optional<format::RecoveryPoint> readable_recovery_point(const std::string& text, const std::string& file) const;
  std::string current_boot() const;
  void store_recovery_point(Offset offset, Offset segment, std::int64_t position, bool durable) const;

  std::string path_;
  bool network_;
  bool in_store_ = true;
  bool dense_ = false;
  std::optional<Offset> only_;  // the only segment that is read
  std::string file_;            // its path, where that does not follow from the offset
};

// Creates the files of an empty partition in an existing, empty directory; durable on return but for the directory's own name.
void create_partition_files(const PartitionDirectory& directory, const std::string& topic_id);

}  // namespace partlog::log

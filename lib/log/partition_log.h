// The writing side of one partition: the append protocol with recovery of what a dead writer or a power failure left, rolling,
// and sync.
//
// One PartitionLog belongs to one thread; any number of them, in this process and others, may append to the same partition. Only
// the lock file is opened before the first append.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "format/record_batch.h"
#include "log/partition_directory.h"
#include "log/segment_index.h"
#include "os/file.h"
#include "os/file_lock.h"
#include "partlog/error.h"
#include "partlog/store.h"

namespace partlog::log {

struct PartitionLogOptions {
  std::string name;  // "topic:partition", for messages
  std::int64_t segment_bytes = 1 << 30;
  std::int64_t segment_ms = 7LL * 24 * 3600 * 1000;
  std::int64_t index_interval_bytes = 4096;
  bool log_append_time = false;
  os::LockWait lock_wait;
  Notice notice;
};

class PartitionLog {
 public:
  PartitionLog(PartitionDirectory directory, PartitionLogOptions options);
  ~PartitionLog();
  PartitionLog(const PartitionLog&) = delete;
  PartitionLog& operator=(const PartitionLog&) = delete;

  struct Appended {
    Offset first;
    bool rolled;       // the batch stands at the start of a new segment
    std::int64_t end;  // position behind it: where the next batch goes if nobody else appends
  };
  // Appends a finished batch (BatchBuilder::finish) and patches offset, epoch and, if configured, append time into it. Any other
  // process sees the batch whole or not at all. On an Error nothing of it is stored, unless it says that the offsets are in
  // doubt. On a network file system it is durable on return, locally only after sync(); Error(fenced) there: this host lost the
  // lock in the middle, and others have appended meanwhile.
  Appended append(const format::BatchBytes& batch);

  // Makes everything up to the last batch appended here durable, also what other processes wrote before it. Blocks for the
  // device. A failure is an Error(io) naming the offsets in doubt; the partition then refuses appends. Error(not_found) if the
  // topic was deleted meanwhile.
  void sync();
  // Whether there is something for sync() to do.
  bool needs_sync() const { return unsynced_.has_value(); }

 private:
  // The active segment as this process last saw it; valid under the lock once refreshed.
  struct Tail {
    Offset base;
    os::File file;
    os::FileId id;
    IndexWriter index;
    std::int64_t end = 0;                      // position behind the last batch
    Offset next;                               // end offset
    std::optional<Timestamp> first_timestamp;  // largest of the first batch: segment.ms counts from it
    std::int64_t reserved = 0;                 // space is preallocated up to here
    bool closed = false;                       // something invalid was found, and that there is a later segment
  };
  // Where in the log a batch is to go.
  struct Place {
    Offset base;
    std::int64_t position;
    Offset next;
    bool begun;  // the segment that begins with `next` is there, made by us or to be appended to
  };
  // What sync() has to cover.
  struct Unsynced {
    Offset first;
    Offset next;
    Offset segment;
    std::int64_t position;
  };
  enum class Behind { writer, restart };  // who may have left an invalid tail: a writer that died, or a restart of the host

  Appended append_locked(const format::BatchBytes& batch, os::FileLock::Guard& guard, std::optional<Place>& place);
  bool was_overtaken(const os::FileLock::Guard& guard, const std::optional<Place>& place, const format::BatchBytes& batch) const;
  bool went_on_behind(const Place& place, const format::BatchBytes& batch) const;
  bool is_followed(const Place& place, const format::BatchBytes& batch) const;
  void withdraw_segment(const Place& place, os::FileLock::Guard& guard) const noexcept;
  void remove_empty_segment(Offset base) const;
  [[noreturn]] void report_failed_append(const Error& error, const std::optional<Place>& place, const format::BatchBytes& batch,
                                         os::FileLock::Guard& guard) const;
  void require_in_place() const;
  void check_appendable() const;
  void refresh_tail();
  void refresh_known_tail();
  bool tail_is_current() const;
  void open_tail();
  void leave_overtaken_segment(Offset before);
  void move_log_start(std::span<const Offset> bases, Offset start) const;
  void leave_strays(std::span<const Offset> bases);
  void go_to_newest_segment();
  bool is_there(Offset base) const;
  std::optional<Offset> end_of(Offset base) const;
  void go_to(Offset base);
  Tail open_segment(Offset base);
  void open_tail_on_network();
  bool read_on(Tail& tail, std::int64_t position, Offset expected, Behind behind);
  void cut(Tail& tail, class BatchScanner& scanner, bool prefix_of_one_batch, Behind behind);
  void tell_of_cut();
  void require_newest_tail();
  std::string gone(Offset next) const;
  void keep_cut_bytes(const os::File& file, Offset base, std::int64_t position);
  void recover_after_restart(const format::RecoveryPoint& point);
  void require_stable_part(const os::File& file, const format::RecoveryPoint& point) const;
  void set_segments_aside(std::span<const Offset> bases, const char* why);
  bool must_roll(const format::BatchHeader& header) const;
  void roll(Place& end, const os::FileLock::Guard& guard);
  void close_tail();
  void write(const format::BatchBytes& batch, const format::BatchHeader& header, const os::FileLock::Guard& guard);
  void take_back(std::int64_t end, const os::FileLock::Guard& guard) noexcept;
  void finish_network_append(os::FileLock::Guard& guard, const format::BatchHeader& header, std::int64_t position);
  void preallocate(std::int64_t size);
  void give_back_space() noexcept;
  void lock_segment(const os::File& file) const;
  std::vector<Offset> segments_from(Offset from) const;
  void sync_segments(Offset from, Offset below);
  template <class Call>
  void call_sync(Call call);
  void sync_known();
  void move_point_if_unlocked() const;
  void notice(const std::string& text) const;
  [[noreturn]] void report_failed_sync(const Error& reason, Offset first, Offset next) const;

  PartitionDirectory directory_;
  PartitionLogOptions options_;
  os::FileLock lock_;
  os::FileId directory_id_;
  std::int32_t epoch_ = 0;
  bool recovered_ = false;    // the restart of the host has been dealt with
  bool sync_failed_ = false;  // here; nothing is durable for certain any more
  std::optional<Tail> tail_;
  std::optional<Offset> last_base_;  // network: the segment last appended to
  std::vector<Offset> last_bases_;   // of the last segments, with none missing in between: spares listings
  std::int64_t appended_bytes_ = 0;
  std::optional<Unsynced> unsynced_;
  std::string cut_;  // what was cut from the tail, not told yet
};

}  // namespace partlog::log

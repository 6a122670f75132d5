// One partition as `consume` reads it: from where the options say to where they say.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "exit_status.h"
#include "partlog/reader.h"
#include "record_output.h"

namespace partlog::cmd {

struct StartPoint {
  enum class Kind { beginning, end, offset, stored, back_from_end, time };
  Kind kind = Kind::beginning;
  std::int64_t number = 0;  // the offset (a stored one may have left the log), how far back, or the timestamp
};

// What to do when the log start has overtaken the reader.
enum class Reset { earliest, latest, fail };

// A notice if a log that ends at `end` was shortened below what was on stable storage.
void tell_if_shortened(const std::optional<Offset>& stable, Offset end, const Store* store, const std::string& name);

class PartitionCursor {
 public:
  struct Options {
    StartPoint start;
    std::optional<Timestamp> until;  // stop before the first record that is not earlier
    Reset reset = Reset::earliest;
    std::string lost_hint;  // with Reset::fail: who cannot go on, and what to do about it; appended to the message
    bool follow = false;    // else stop at the end as it stands now
    ReaderOptions reader;
  };

  // Looks up start and end. Error(offset_out_of_range) for a start point outside the log.
  PartitionCursor(const Store& store, const std::shared_ptr<const Topic>& topic, int partition, const Options& options);
  // Of a partition directory, or a file in one, that no store is known of; see PartitionReader.
  PartitionCursor(const std::string& path, const Options& options);

  // The next records; none: at the end for now, or for good if done(). Valid until the next call of any function here.
  std::span<const Record> read();
  // The same; a partition that fails is reported and abandoned.
  std::span<const Record> read(Outcome& outcome);
  bool done() const { return done_; }
  // Behind the last record that read() gave, or left out because the log start has overtaken it.
  Offset next() const { return next_; }
  // read() goes on at an offset below next().
  void rewind(Offset offset);
  // Nothing more is wanted of it.
  void abandon();

  // The range that the options asked for, before anything is read.
  Offset first() const { return first_; }
  Offset last_end();
  // Moves the end of the range in front of the first record of it that `until` forbids.
  void apply_until();
  // If a transaction that is still open held the last read back, its end is there; or damage that is passed over has decided.
  // True: what was read up to the end is to be looked at again.
  bool end_where_held_back();
  void seek(Offset offset);
  // Reads on beyond the range, if the options say so.
  void follow_on();
  // What is held of what was read, in bytes; see PartitionReader::release().
  std::size_t memory() const { return reader_ ? reader_->memory() : 0; }
  void release_memory() {
    if (reader_) reader_->release();
  }
  bool in_batch() const { return reader_ && reader_->in_batch(); }
  // What is read until tell_now() will be read again: what is missing there is told then.
  void tell_later() { told_->is_later = true; }
  void tell_now();
  // Closes the files; the next read() opens them again.
  void release();

  Origin origin();
  const std::string& name() const { return name_; }
  // Null for files.
  const std::shared_ptr<const Topic>& topic() const { return topic_; }
  int partition() const { return origin_.partition; }
  const std::string& directory() { return reader().directory(); }
  PartitionReader& reader();

 private:
  using Open = std::function<PartitionReader(const ReaderOptions&)>;
  struct Told {
    bool is_later = false;
    bool any = false;
  };

  PartitionCursor(std::string name, std::shared_ptr<const Topic> topic, const std::optional<PartitionName>& origin, Open open,
                  const Options& options, const Store* store);
  Offset resolve(const StartPoint& start);
  void set_end(Offset end);
  bool go_on_at_log_start();
  bool look_at_end();
  void tell_held_back(Offset from);

  const Store* store_;
  std::string name_;  // for messages
  std::shared_ptr<const Topic> topic_;
  PartitionName origin_;  // partition -1: not known
  Open open_;
  Options options_;
  std::shared_ptr<Told> told_ = std::make_shared<Told>();
  std::optional<PartitionReader> reader_;
  Offset position_;  // while the reader is closed
  Offset next_;
  Offset first_;
  std::optional<Offset> end_;       // none: it was not looked for yet
  std::optional<Offset> stable_;    // the log reached up to here once
  std::optional<Timestamp> since_;  // records before the first that is not earlier are passed over
  std::optional<Offset> told_held_back_;
  bool bounded_;
  bool done_ = false;
};

}  // namespace partlog::cmd

// Hands the records of one partition after another on: to standard output, or (exec_delivery.h) to a command.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "exit_status.h"
#include "filter.h"
#include "output.h"
#include "partition_cursor.h"
#include "record_output.h"

namespace partlog::cmd {

class Delivery {
 public:
  struct Options {
    std::uint64_t count = std::numeric_limits<std::uint64_t>::max();  // of records that pass the filter
    bool unbuffered = false;
  };

  // The references must outlive it. Failures of single partitions go into `outcome`; failures of what takes the records are
  // thrown.
  Delivery(Filter& filter, Outcome& outcome, Options options) : filter_(filter), outcome_(outcome), options_(options) {}
  virtual ~Delivery() = default;
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  // Called before records of a partition are handed on, with the offsets from which on and up to which they were looked at. An
  // Error it throws is one of the partition.
  using Before = std::function<void(PartitionCursor&, Offset from, Offset next)>;
  void call_before(Before before) { before_ = std::move(before); }

  // Reads some records of the cursor and hands on those that pass. Afterwards the cursor stands behind the last that was handed
  // on or left out. False: there was nothing to read, or the partition has failed and is done.
  virtual bool deliver(PartitionCursor& cursor) = 0;
  // Whether deliver() takes microseconds, unless nobody takes what it gives.
  virtual bool is_quick() const = 0;
  // Sends what waits on its way.
  virtual void flush() = 0;
  // Throws BrokenPipe if whoever takes the records has gone away.
  virtual void require_taker() const = 0;
  // The descriptor that tells that (-1: none does).
  virtual int taker_descriptor() const = 0;

  // Tells when something handed on has arrived: what deliver() handed on so far has once taken() reaches what handed_on() was
  // then.
  virtual std::uint64_t handed_on() const = 0;
  virtual std::uint64_t taken() = 0;
  // Of the records that `reader`, which is for this alone, finds up to `to`, handed on beginning with what handed_on() was: the
  // offset of the first that has not arrived, if no more than `taken` has. Nothing else is disturbed.
  virtual Offset first_not_taken(PartitionReader& reader, std::string_view topic, Offset to, std::uint64_t handed_on,
                                 std::uint64_t taken) = 0;
  // `waiting` is called every so often while whoever takes the records takes nothing.
  virtual void call_while_waiting(std::function<void()> waiting, std::chrono::milliseconds every) = 0;

  // Records that passed the filter and were handed on.
  std::uint64_t delivered() const { return delivered_; }
  // Whether more may be delivered.
  bool wanted() const;

 protected:
  // Those that pass, at most `limit` and as many as are wanted, and the offset behind the last record that was looked at for
  // them. What `records` held beyond that is for the next call of read(), once finish() was called.
  struct Choice {
    std::span<const Record> records;
    Offset next;
  };
  Choice choose(std::span<const Record> records, const PartitionCursor& cursor, std::uint64_t limit);
  // False: the partition failed, and is done at `start`.
  bool announce(PartitionCursor& cursor, Offset start, Offset next);
  static void finish(PartitionCursor& cursor, Offset next);
  std::uint64_t still_wanted() const { return options_.count - delivered_; }

  Filter& filter_;
  Outcome& outcome_;
  Options options_;
  std::uint64_t delivered_ = 0;

 private:
  Before before_;
};

class PrintDelivery : public Delivery {
 public:
  PrintDelivery(Filter& filter, Outcome& outcome, Options options, const OutputFormat& format, Output& output);

  bool deliver(PartitionCursor& cursor) override;
  bool is_quick() const override { return true; }
  void flush() override { output_.flush(); }
  void require_taker() const override { output_.require_reader(); }
  int taker_descriptor() const override { return output_.descriptor(); }
  std::uint64_t handed_on() const override { return output_.appended(); }
  std::uint64_t taken() override { return output_.taken(); }
  Offset first_not_taken(PartitionReader& reader, std::string_view topic, Offset to, std::uint64_t handed_on,
                         std::uint64_t taken) override;
  void call_while_waiting(std::function<void()> waiting, std::chrono::milliseconds every) override {
    output_.call_while_waiting(std::move(waiting), every);
  }

  // Prints records that passed, from wherever.
  void print(std::span<const Record> records, const Origin& origin);

 private:
  OutputFormat form_;
  Output& output_;
  RecordOutput format_;
};

}  // namespace partlog::cmd

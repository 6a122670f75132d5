// Hands records on in batches of one partition, each to a command of its own (`consume --exec`).
#pragma once

#include <optional>
#include <string>

#include "child.h"
#include "delivery.h"
#include "descriptor.h"
#include "partlog/producer.h"

namespace partlog::cmd {

class ExecDelivery : public Delivery {
 public:
  struct ExecOptions {
    std::string command;
    std::uint64_t batch = 1000;  // records at most; a batch also ends behind the record that fills 1 MiB of output
    int retries = 3;
    std::optional<Topic> dead_letter;  // takes the records of batches that the command failed on
  };

  // The store is that of the dead letters; without them it may be null.
  ExecDelivery(const Store* store, Filter& filter, Outcome& outcome, Options options, const OutputFormat& format,
               ExecOptions exec);

  // Error(refused) if the command failed for good; the cursor then stands in front of the batch, and also if a signal asks us to
  // end.
  bool deliver(PartitionCursor& cursor) override;
  bool is_quick() const override { return false; }
  void flush() override {}
  void require_taker() const override {}
  int taker_descriptor() const override { return -1; }
  // What was handed on has arrived: the command has ended.
  std::uint64_t handed_on() const override { return 0; }
  std::uint64_t taken() override { return 0; }
  Offset first_not_taken(PartitionReader&, std::string_view, Offset to, std::uint64_t, std::uint64_t) override { return to; }
  // Nothing arrives before the command has ended, so there is no hurry.
  void call_while_waiting(std::function<void()> waiting, std::chrono::milliseconds) override {
    runner_.call_while_waiting(std::move(waiting));
  }

 private:
  struct Batch;

  Batch collect(PartitionCursor& cursor);
  bool run(const Batch& batch);
  void store_dead_letters(const Batch& batch, PartitionCursor& cursor);

  const Store* store_;
  ExecOptions exec_;
  ChildRunner runner_;
  Descriptor file_;  // in memory: what the command reads
  Output output_;
  RecordOutput format_;
};

}  // namespace partlog::cmd

// Moves records from the files that `produce` was given to a producer.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "output.h"
#include "partlog/producer.h"
#include "record_input.h"

namespace partlog::cmd {

// Files opened for reading; closed with the object.
class InputFiles {
 public:
  struct File {
    int descriptor;
    std::string name;  // empty: standard input
    bool waits;        // whether a read may wait for someone to write
  };

  // Opens all (`-`, and none at all, is standard input). Error(io) if one cannot be.
  explicit InputFiles(const std::vector<std::string>& names);
  ~InputFiles();
  InputFiles(const InputFiles&) = delete;
  InputFiles& operator=(const InputFiles&) = delete;

  const std::vector<File>& all() const { return files_; }

 private:
  std::vector<File> files_;
};

// Lines for --report, collected while the producer acknowledges and printed once it has returned.
class Report {
 public:
  explicit Report(std::string topic) : topic_(std::move(topic)) {}
  // `skipped` is what the input held before the records that the producer was given.
  void add(const Acknowledgement& acknowledgement, Progress skipped);
  void print();

 private:
  std::string topic_;
  std::string lines_;
  Output output_;
};

class InputPump {
 public:
  // `after_call` is called after each call of the producer.
  InputPump(RecordInput& input, Producer& producer, SyncPolicy sync, std::function<void()> after_call);

  // Stores the records of all files, until their end, the count asked for or a stop signal. What is left waiting in the producer
  // is the caller's to sync().
  void run(const InputFiles& files);

  // Whether every record that was asked for is stored, and the input has no other.
  bool nothing_left();

  // Whether the producer threw: it must not be asked to store more.
  bool producer_failed() const { return producer_failed_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run(const InputFiles::File& file);
  void pump_blocks(int descriptor);
  bool wait(int descriptor);
  std::optional<Clock::time_point> next_deadline() const;
  void meet_deadlines(Clock::time_point now);
  void hand_over();
  template <class Work>
  void with_producer(Work work);

  RecordInput& input_;
  Producer& producer_;
  SyncPolicy sync_;
  std::function<void()> after_call_;
  Clock::time_point last_input_ = Clock::now();
  bool producer_failed_ = false;
  bool finished_ = false;                   // all was read and handed over
  const InputFiles::File* last_ = nullptr;  // the last of the files, once it is being read
};

}  // namespace partlog::cmd

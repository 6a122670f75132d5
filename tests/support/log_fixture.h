// A temporary store, short ways to append and read, and the checker of log_checker.h in the teardown of every test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "os/clock.h"
#include "partlog/producer.h"
#include "partlog/reader.h"
#include "partlog/store.h"
#include "support/log_checker.h"
#include "support/seed.h"
#include "support/temporary_directory.h"

namespace partlog::test {

// `count` times PARTLOG_TEST_SCALE (default 1), at least one.
int scaled(int count);

using Configs = std::map<std::string, std::string>;

// Time that stands still until it is told to go on.
class ManualClock : public os::Clock {
 public:
  Timestamp now() const override { return now_; }
  std::int64_t monotonic_us() const override { return monotonic_us_; }
  void set(Timestamp time) { now_ = time; }
  void advance(std::int64_t ms) {
    now_ += ms;
    monotonic_us_ += 1000 * ms;
  }

 private:
  Timestamp now_{1'000'000'000'000};
  std::int64_t monotonic_us_ = 1'000'000;
};

// What a reader gave, copied.
struct Given {
  std::int64_t offset = 0;
  std::int64_t timestamp = 0;
  std::optional<std::string> key;
  std::optional<std::string> value;
  friend bool operator==(const Given&, const Given&) = default;
};

struct ReadResult {
  std::vector<Given> records;
  std::optional<ErrorCode> error;  // what the reading ended with, if not at the end
  std::string message;

  std::vector<std::string> values() const;
};

// Reads on from the reader's position until read() gives nothing, or an Error.
ReadResult read_on(PartitionReader& reader, std::optional<Offset> limit = {});
// From the log start.
ReadResult read_all(const Store& store, const Topic& topic, int partition = 0, ReaderOptions options = {});

// Every file of a directory by name.
std::map<std::string, std::string> snapshot(const std::string& directory);

// Makes all boot ids stored in a partition those of an earlier boot, as if the host had restarted since.
void restart_host(const std::string& partition_directory);

inline ProducerOptions with_sync(SyncPolicy policy) {
  ProducerOptions options;
  options.sync = policy;
  return options;
}
inline ProducerOptions into_partition(int partition) {
  ProducerOptions options;
  options.partition = partition;
  return options;
}

// One record a batch: the batches are then what the test chose.
class TestProducer {
 public:
  TestProducer(const Store& store, const Topic& topic, ProducerOptions options = {});
  void append(const std::string& value, std::int64_t timestamp = 1'000'000'000'000);
  void append_batch(const std::vector<std::string>& values, std::int64_t timestamp = 1'000'000'000'000);
  void sync() { producer->sync(); }

  std::vector<std::string> notices;
  std::vector<Acknowledgement> acknowledgements;
  std::unique_ptr<Producer> producer;
};

class LogTest : public ::testing::Test {
 protected:
  LogTest();
  void TearDown() override;

  Topic make_topic(const Configs& configs = {}, int partitions = 1, const std::string& name = "t");
  std::string partition_directory(const Topic& topic, int partition = 0) const;
  std::string segment_path(const Topic& topic, std::int64_t base, const std::string& suffix = ".log", int partition = 0) const;

  // Checks a partition now; faults fail the test.
  CheckedLog checked(const Topic& topic, int partition = 0);
  // The last state is meant to be broken (damage that nothing may repair).
  void leave_broken() { check_at_end_ = false; }

  TemporaryDirectory directory_;
  Store store_;
  LogRules rules_;  // for checked(), but for index_interval_bytes

 private:
  bool check_at_end_ = true;
};

}  // namespace partlog::test

// Reads partition directories with code of its own, none of it the library's, and says everything that is wrong with them:
// batches (format v2), checksums, records, dense offsets across segments, and both indexes against what Kafka's rule gives for
// the batches.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace partlog::test {

struct CheckedRecord {
  std::int64_t offset = 0;
  std::int64_t timestamp = 0;
  std::optional<std::string> key;
  std::optional<std::string> value;
};

struct CheckedBatch {
  std::int64_t position = 0;
  std::int64_t size = 0;
  std::int64_t base_offset = 0;
  std::int64_t last_offset = 0;
  std::int64_t max_timestamp = 0;
  int attributes = 0;
  std::vector<CheckedRecord> records;  // of batches that are not compressed
};

struct CheckedSegment {
  std::string path;  // of the log file
  std::int64_t base = 0;
  std::int64_t size = 0;
  std::vector<CheckedBatch> batches;
};

struct CheckedLog {
  std::vector<CheckedSegment> segments;
  std::vector<std::string> faults;  // empty: everything is as it should be

  std::int64_t end() const;
  std::vector<CheckedRecord> records() const;
};

struct LogRules {
  std::int64_t index_interval_bytes = 4096;
  bool dense = true;         // no gaps between batches and segments
  bool indexes = true;       // .index and .timeindex are what the batches give
  bool closed_last = false;  // the last segment has its final time index entry
};

CheckedLog check_log(const std::string& partition_directory, const LogRules& rules = {});

std::string contents_of(const std::string& path);
void overwrite(const std::string& path, const std::string& contents);

}  // namespace partlog::test

// Segments that Kafka brokers wrote, held against facts that an independent reader found out (facts.json beside them). They are
// not part of the source tree: PARTLOG_SEGMENTS names their directory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "format/record_batch.h"

namespace partlog::format {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The number behind a name in the entry of one log; the file's layout is known, no JSON parser is needed.
std::int64_t fact(const std::string& facts, const std::string& log, const std::string& name) {
  const std::size_t entry = facts.find("\"" + log + "\": {");
  if (entry == std::string::npos) throw std::runtime_error("no facts about " + log);
  const std::string key = "\"" + name + "\": ";
  const std::size_t at = facts.find(key, entry);
  return std::stoll(facts.substr(at + key.size(), 24));
}

struct Found {
  std::int64_t batches = 0;
  std::int64_t records = 0;
  std::int64_t first_offset = -1;
  std::int64_t last_offset = -1;
  std::int64_t max_timestamp = -1;
  std::int64_t control_batches = 0;
  std::int64_t txn_batches = 0;
  std::int64_t null_keys = 0;
  std::int64_t null_values = 0;
  std::int64_t with_headers = 0;
};

void count(const Record& r, Found& found) {
  if (found.first_offset < 0) found.first_offset = r.offset.value;
  EXPECT_GT(r.offset.value, found.last_offset);
  found.last_offset = r.offset.value;
  found.max_timestamp = std::max(found.max_timestamp, r.timestamp.value);
  ++found.records;
  found.null_keys += r.key.is_null();
  found.null_values += r.value.is_null();
  found.with_headers += r.headers.count > 0;
  HeaderCursor cursor(r.headers);
  std::uint32_t headers = 0;
  for (Header h; cursor.next(h);) ++headers;
  EXPECT_EQ(headers, r.headers.count);
}

Found decode_all(std::span<const char> log, std::set<Compression>& codecs) {
  Found found;
  RecordDecoder decoder;
  std::vector<Record> some(100);
  while (!log.empty()) {
    const BatchHeader header = read_batch_header(log);
    const auto batch = log.first(static_cast<std::size_t>(header.size()));
    EXPECT_EQ(header_fault(header), nullptr);
    EXPECT_TRUE(checksum_matches(header, batch));
    ++found.batches;
    found.control_batches += header.is_control();
    found.txn_batches += header.is_transactional();
    codecs.insert(header.compression());
    decoder.start(header, batch);
    while (const std::size_t n = decoder.decode(some)) {
      for (const Record& r : std::span(some).first(n)) count(r, found);
    }
    EXPECT_EQ(decoder.fault(), "");
    log = log.subspan(batch.size());
  }
  return found;
}

void compare(const Found& found, const std::string& facts, const std::string& log) {
  EXPECT_EQ(found.batches, fact(facts, log, "batches"));
  EXPECT_EQ(found.records, fact(facts, log, "records"));
  EXPECT_EQ(found.first_offset, fact(facts, log, "first_offset"));
  EXPECT_EQ(found.last_offset, fact(facts, log, "last_offset"));
  EXPECT_EQ(found.max_timestamp, fact(facts, log, "max_timestamp"));
  EXPECT_EQ(found.control_batches, fact(facts, log, "control_batches"));
  EXPECT_EQ(found.txn_batches, fact(facts, log, "txn_batches"));
  EXPECT_EQ(found.null_keys, fact(facts, log, "null_keys"));
  EXPECT_EQ(found.null_values, fact(facts, log, "null_values"));
  EXPECT_EQ(found.with_headers, fact(facts, log, "with_headers"));
}

// Whether all batches of a file are of message format 2.
bool is_all_v2(std::span<const char> log) {
  if (log.empty()) return false;
  while (log.size() >= batch_header_size) {
    const BatchHeader header = read_batch_header(log);
    if (header.magic != 2 || header.size() > static_cast<std::int64_t>(log.size())) return false;
    log = log.subspan(static_cast<std::size_t>(header.size()));
  }
  return log.empty();
}

}  // namespace

TEST(BrokerSegments, AllRecordsOfMessageFormat2) {
  const char* directory = std::getenv("PARTLOG_SEGMENTS");
  if (directory == nullptr) GTEST_SKIP() << "PARTLOG_SEGMENTS does not name a directory of segments that brokers wrote";
  const std::string facts = contents(std::filesystem::path(directory) / "facts.json");
  ASSERT_FALSE(facts.empty());
  std::set<Compression> codecs;
  int logs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    if (entry.path().extension() != ".log") continue;
    const std::string log = contents(entry.path());
    if (!is_all_v2(log)) continue;
    const std::string name = entry.path().lexically_relative(directory).string();
    SCOPED_TRACE(name);
    compare(decode_all(log, codecs), facts, name);
    ++logs;
  }
  EXPECT_GT(logs, 50);
  EXPECT_EQ(codecs.size(), 5u);
}

}  // namespace partlog::format

// Segments that Kafka brokers wrote, of every message format, held against facts that an independent reader found out (facts.json
// beside them). They are not part of the source tree: PARTLOG_SEGMENTS names their directory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "format/codec.h"
#include "format/record_batch.h"
#include "log/batch_scanner.h"
#include "os/file.h"

namespace partlog::format {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What stands behind a name in the entry of one log up to one of these characters, without white space; the file's layout is
// known, no JSON parser is needed.
std::string fact(const std::string& facts, const std::string& log, const std::string& name, const char* until = ",\n}") {
  const std::size_t entry = facts.find("\"" + log + "\": {");
  if (entry == std::string::npos) throw std::runtime_error("no facts about " + log);
  const std::string key = "\"" + name + "\": ";
  const std::size_t at = facts.find(key, entry) + key.size();
  std::string text = facts.substr(at, facts.find_first_of(until, at) - at);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n' || c == '{' || c == '['; });
  return text;
}

struct Found {
  std::vector<int> magics;                          // in order of appearance
  std::vector<std::pair<std::string, int>> codecs;  // likewise, with the number of batches
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
  std::int64_t valid_bytes = 0;
  bool all_valid = false;
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

std::string codec_of(const BatchHeader& header, std::span<const char> batch) {
  const std::string name = codec_name(header.compression());
  if (name != "snappy") return name;
  return std::string_view(batch.data(), batch.size()).find("SNAPPY") == std::string_view::npos ? "snappy/raw" : "snappy/xerial";
}

void count(const BatchHeader& header, std::span<const char> batch, Found& found) {
  ++found.batches;
  found.control_batches += header.is_control();
  found.txn_batches += header.is_transactional();
  const auto codec = codec_of(header, batch);
  auto at = std::find_if(found.codecs.begin(), found.codecs.end(), [&](const auto& c) { return c.first == codec; });
  if (at == found.codecs.end()) at = found.codecs.insert(at, {codec, 0});
  ++at->second;
  if (std::find(found.magics.begin(), found.magics.end(), header.magic) == found.magics.end())
    found.magics.push_back(header.magic);
}

Found read_all(const std::filesystem::path& path) {
  Found found;
  const auto file = os::File::open(path.string(), os::File::Mode::read);
  const bool is_snapshot = path.extension() == ".checkpoint";  // its offsets are its own
  log::BatchScanner scanner(file, 0, {is_snapshot ? 0 : std::stoll(path.stem().string())}, 4096);
  RecordDecoder decoder;
  std::vector<Record> some(100);
  auto scan = scanner.next();
  for (; scan == log::Scan::batch; scan = scanner.next()) {
    const auto& header = scanner.header();
    count(header, scanner.batch(), found);
    decoder.start(header, scanner.batch());
    std::int64_t in_batch = 0;
    while (const std::size_t n = decoder.decode(some)) {
      for (const Record& r : std::span(some).first(n)) count(r, found);
      in_batch += static_cast<std::int64_t>(n);
    }
    EXPECT_EQ(decoder.fault(), "");
    EXPECT_EQ(in_batch, header.record_count);
    EXPECT_LE(found.last_offset, header.last_offset().value);
  }
  found.valid_bytes = scanner.position();
  found.all_valid = scan == log::Scan::end;
  return found;
}

// As facts.json writes them.
std::string text_of(const std::vector<int>& magics) {
  std::string text;
  for (const int magic : magics) text += (text.empty() ? "" : ",") + std::to_string(magic);
  return text;
}
std::string text_of(const std::vector<std::pair<std::string, int>>& codecs) {
  std::string text;
  for (const auto& [name, batches] : codecs) text += (text.empty() ? "\"" : ",\"") + name + "\":" + std::to_string(batches);
  return text;
}
std::string text_of(std::int64_t number) { return std::to_string(number); }

void compare(Found found, const std::string& facts, const std::string& log) {
  const auto none_if_empty = [&](std::int64_t n) { return found.records == 0 ? "null" : text_of(n); };
  std::sort(found.magics.begin(), found.magics.end());
  EXPECT_EQ(text_of(found.magics), fact(facts, log, "magic", "]"));
  EXPECT_EQ(text_of(found.codecs), fact(facts, log, "codecs", "}"));
  EXPECT_EQ(text_of(found.batches), fact(facts, log, "batches"));
  EXPECT_EQ(text_of(found.records), fact(facts, log, "records"));
  EXPECT_EQ(none_if_empty(found.first_offset), fact(facts, log, "first_offset"));
  EXPECT_EQ(none_if_empty(found.last_offset), fact(facts, log, "last_offset"));
  EXPECT_EQ(none_if_empty(found.max_timestamp), fact(facts, log, "max_timestamp"));
  EXPECT_EQ(text_of(found.valid_bytes), fact(facts, log, "valid_bytes"));
  EXPECT_EQ(text_of(found.control_batches), fact(facts, log, "control_batches"));
  EXPECT_EQ(text_of(found.txn_batches), fact(facts, log, "txn_batches"));
  EXPECT_EQ(text_of(found.null_keys), fact(facts, log, "null_keys"));
  EXPECT_EQ(text_of(found.null_values), fact(facts, log, "null_values"));
  EXPECT_EQ(text_of(found.with_headers), fact(facts, log, "with_headers"));
}

}  // namespace

TEST(BrokerSegments, AllRecordsOfEveryMessageFormat) {
  const char* directory = std::getenv("PARTLOG_SEGMENTS");
  if (directory == nullptr) GTEST_SKIP() << "PARTLOG_SEGMENTS does not name a directory of segments that brokers wrote";
  const std::string facts = contents(std::filesystem::path(directory) / "facts.json");
  ASSERT_FALSE(facts.empty());
  std::set<std::string> codecs;
  std::set<int> magics;
  int logs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const bool is_snapshot = entry.path().extension() == ".checkpoint" && std::isdigit(entry.path().filename().string()[0]) != 0;
    if (entry.path().extension() != ".log" && !is_snapshot) continue;
    const std::string name = entry.path().lexically_relative(directory).string();
    SCOPED_TRACE(name);
    EXPECT_EQ(std::to_string(entry.file_size()), fact(facts, name, "size"));
    const auto found = read_all(entry.path());
    ++logs;
    if (fact(facts, name, "errors", "]") == "\"CRCmismatchbatch@0\"") {
      EXPECT_FALSE(found.all_valid);
      EXPECT_EQ(found.valid_bytes, 0);
      continue;
    }
    EXPECT_EQ(fact(facts, name, "errors", "]"), "");
    EXPECT_TRUE(found.all_valid);
    compare(found, facts, name);
    for (const auto& [codec, batches] : found.codecs) codecs.insert(codec);
    magics.insert(found.magics.begin(), found.magics.end());
  }
  EXPECT_GE(logs, 80);
  EXPECT_EQ(codecs.size(), 6u);
  EXPECT_EQ(magics, (std::set{0, 1, 2}));
}

}  // namespace partlog::format

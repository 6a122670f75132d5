#include "record_input.h"

#include <gtest/gtest.h>

#include <cstring>

namespace partlog::cmd {
namespace {

using namespace std::string_literals;

// What came out of a RecordInput: "key=value" with ~ for null, and the message that ended it.
struct Outcome {
  std::vector<std::string> records;
  std::uint64_t bytes = 0;
  std::string error;
};

void take_all(RecordInput& input, Outcome& outcome) {
  auto text = [](Bytes b) { return b.is_null() ? "~"s : std::string(b.view()); };
  for (auto records = input.next(); !records.empty(); records = input.next()) {
    for (const auto& record : records) outcome.records.push_back(text(record.key) + "=" + text(record.value));
    for (auto size : input.sizes()) outcome.bytes += size;
  }
}

// Feeds the text in pieces of `chunk` bytes.
Outcome feed(const InputFormat& format, std::string_view text, std::size_t chunk) {
  RecordInput input(format);
  Outcome outcome;
  input.begin_file("");
  try {
    for (std::size_t at = 0; at < text.size() && !input.complete(); at += chunk) {
      std::size_t size = std::min(chunk, text.size() - at);
      std::memcpy(input.room().data(), text.data() + at, size);
      input.filled(size);
      take_all(input, outcome);
    }
    input.end_file();
    take_all(input, outcome);
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

using Records = std::vector<std::string>;

TEST(RecordInput, TheSameRecordsForEveryChunking) {
  InputFormat format;
  format.delimiter = "aab";
  format.key_delimiter = "::";
  const std::string text = "k::1aaabk:::2aab::aabx::aaab::yaa";
  for (std::size_t chunk = 1; chunk <= text.size(); ++chunk) {
    Outcome outcome = feed(format, text, chunk);
    EXPECT_EQ(outcome.records, (Records{"k=1a", "k=:2", "=", "x=a", "=yaa"})) << chunk;
    EXPECT_EQ(outcome.bytes, text.size());
    EXPECT_EQ(outcome.error, "");
  }
}

TEST(RecordInput, LongPiecesGrowThroughManyReads) {
  InputFormat format;
  format.limit = 10 << 20;
  std::string text = std::string(3 << 20, 'x') + "\n" + std::string(70'000, 'y') + "\nz";
  Outcome outcome = feed(format, text, 200'000);
  ASSERT_EQ(outcome.records.size(), 3u);
  EXPECT_EQ(outcome.records[0].size(), (3u << 20) + 2);
  EXPECT_EQ(outcome.records[1].size(), 70'002u);
  EXPECT_EQ(outcome.records[2], "~=z");
}

// The memory of a line grows, and is given back, while part of the next one is there already.
TEST(RecordInput, LongPiecesOfAllSizesInARow) {
  InputFormat format;
  format.limit = 64 << 20;
  std::string text;
  Records expected;
  for (const std::size_t size : {9 << 20, 100'000, 30 << 20, 70'000, 200'000, 64'000, 20 << 20, 5, 300'000}) {
    const std::string value(size, static_cast<char>('a' + expected.size()));
    text += value + "\n";
    expected.push_back("~=" + value);
  }
  for (const std::size_t chunk : {Splitter::chunk, std::size_t{65'536}, std::size_t{99'999}}) {
    const Outcome outcome = feed(format, text, chunk);
    EXPECT_TRUE(outcome.records == expected) << chunk;  // not EQ: it would print them
    EXPECT_EQ(outcome.bytes, text.size());
  }
}

TEST(RecordInput, LinesThatAreTooLongAreCountedNotHeld) {
  InputFormat format;
  format.limit = 1000;
  std::string text = "a\nb\n" + std::string(2'000'000, 'x') + "\nc\n";
  for (std::size_t chunk : {100u, 4096u, 262144u}) {
    Outcome outcome = feed(format, text, chunk);
    EXPECT_EQ(outcome.records, (Records{"~=a", "~=b"}));
    EXPECT_EQ(outcome.error, "line 3 has 2000000 bytes, too many for a record of at most 1000 bytes (max.message.bytes)");
  }
}

TEST(RecordInput, BlankLinesAndTheLastOne) {
  InputFormat format;
  EXPECT_EQ(feed(format, "a\n\nb", 2).records, (Records{"~=a", "~=", "~=b"}));
  EXPECT_EQ(feed(format, "", 1).records, Records{});
  EXPECT_EQ(feed(format, "\n", 1).records, (Records{"~="}));
  format.skip_empty = true;
  Outcome outcome = feed(format, "\na\n\n\nb\n", 3);
  EXPECT_EQ(outcome.records, (Records{"~=a", "~=b"}));
  EXPECT_EQ(outcome.bytes, 7u);
}

TEST(RecordInput, CarriageReturnsBeforeNewline) {
  InputFormat format;
  EXPECT_EQ(feed(format, "a\r\n", 1).records, (Records{"~=a\r"}));
  format.crlf = true;
  EXPECT_EQ(feed(format, "a\r\r\nb\r\nc\r", 1).records, (Records{"~=a\r", "~=b", "~=c\r"}));
}

TEST(RecordInput, NullEmptyAndMissingKeys) {
  InputFormat format;
  format.key_delimiter = ":";
  EXPECT_EQ(feed(format, "k:v\n:v\nk:\n", 100).records, (Records{"k=v", "=v", "k="}));
  Outcome outcome = feed(format, "k:v\nnone\nk:w\n", 100);
  EXPECT_EQ(outcome.records, (Records{"k=v"}));
  EXPECT_EQ(outcome.error, "line 2 has no key delimiter (--lenient would make it a record without key)");
  format.lenient = true;
  EXPECT_EQ(feed(format, "none\nk:w\n", 100).records, (Records{"~=none", "k=w"}));
  format.empty_is_null = true;
  EXPECT_EQ(feed(format, ":\n", 100).records, (Records{"~=~"}));
  format.null_marker = "NULL";
  EXPECT_EQ(feed(format, "NULL:NULL\n", 100).records, (Records{"~=~"}));
  format.key = "default";
  EXPECT_EQ(feed(format, "none\nk:w\n", 100).records, (Records{"default=none", "k=w"}));
}

TEST(RecordInput, SkipAndCount) {
  InputFormat format;
  format.skip = 2;
  format.count = 2;
  EXPECT_EQ(feed(format, "a\nb\nc\nd\ne\n", 3).records, (Records{"~=c", "~=d"}));
  RecordInput input(format);
  input.begin_file("");
  std::memcpy(input.room().data(), "ab\nc\n", 5);
  input.filled(5);
  EXPECT_TRUE(input.next().empty());
  EXPECT_EQ(input.skipped().records, 2u);
  EXPECT_EQ(input.skipped().bytes, 5u);
}

TEST(RecordInput, AFileAsARecord) {
  InputFormat format;
  format.delimiter.clear();
  EXPECT_EQ(feed(format, "a\nb\n", 1).records, (Records{"~=a\nb\n"}));
  EXPECT_EQ(feed(format, "", 1).records, (Records{"~="}));
}

}  // namespace
}  // namespace partlog::cmd

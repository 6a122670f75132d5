// Logs that hold messages of formats v0 and v1, alone and before record batches: reading, torn tails, damage, appending behind
// them.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "base/byte_order.h"
#include "format/codec.h"
#include "format/record_batch.h"
#include "partlog/error.h"
#include "support/log_fixture.h"
#include "support/old_messages.h"

namespace partlog::test {
namespace {

constexpr std::int64_t t0 = 1'700'000'000'000;
constexpr int gzip = 1;
constexpr int lz4 = 3;

struct Piece {
  std::string bytes;  // one batch
  std::vector<Given> records;
};

Piece message(int magic, std::int64_t offset, const std::string& value) {
  const auto timestamp = t0 + offset;
  return {encoded({offset, magic, 0, timestamp, "key", value}), {{offset, magic == 0 ? -1 : timestamp, "key", value}}};
}

// A wrapper of messages with these offsets.
Piece wrapper(int magic, const std::vector<std::int64_t>& offsets, int codec = gzip) {
  Piece piece;
  std::string set;
  for (const auto offset : offsets) {
    const auto timestamp = t0 + offset;
    const auto value = "wrapped " + std::to_string(offset);
    set += encoded({magic == 0 ? offset : offset - offsets.front(), magic, 0, timestamp, std::nullopt, value});
    piece.records.push_back({offset, magic == 0 ? -1 : timestamp, std::nullopt, value});
  }
  piece.bytes = encoded({offsets.back(), magic, codec, t0 + offsets.back(), std::nullopt,
                         codec == gzip ? gzip_member(set) : lz4_frame(set, magic == 0)});
  return piece;
}

Piece batch(const std::vector<std::int64_t>& offsets) {
  Piece piece;
  format::BatchBuilder builder;
  for (const auto offset : offsets) {
    const auto value = "batched " + std::to_string(offset);
    Record record;
    record.value = Bytes(value);
    record.timestamp = {t0 + offset};
    builder.add(record);
    piece.records.push_back({offset, t0 + offset, std::nullopt, value});
  }
  const auto bytes = builder.finish();
  format::set_offset_and_epoch(bytes, {offsets.front()}, 0);
  piece.bytes.assign(bytes.data(), bytes.size());
  return piece;
}

std::string gzipped(std::string_view data) {
  RawBuffer out;
  const std::span<const char> pieces[] = {data};
  const auto size = format::compress(Compression::gzip, {}, pieces, out, 0);
  return {out.data(), size};
}

// The same wrapper with nothing of its messages in plain view.
Piece compressed_well(const Piece& wrapper) {
  const int magic = wrapper.bytes[16];
  std::string set;
  for (const auto& r : wrapper.records) {
    set += encoded({magic == 0 ? r.offset : r.offset - wrapper.records.front().offset, magic, 0, r.timestamp, r.key, r.value});
  }
  const auto last = wrapper.records.back();
  return {encoded({last.offset, magic, gzip, last.timestamp, std::nullopt, gzipped(set)}), wrapper.records};
}

std::string bytes_of(const std::vector<Piece>& pieces) {
  std::string all;
  for (const auto& piece : pieces) all += piece.bytes;
  return all;
}

std::vector<Given> records_of(const std::vector<Piece>& pieces, std::size_t count = SIZE_MAX) {
  std::vector<Given> all;
  for (std::size_t i = 0; i < std::min(count, pieces.size()); ++i) {
    all.insert(all.end(), pieces[i].records.begin(), pieces[i].records.end());
  }
  return all;
}

// Every format, plain and wrapped, with a hole here and there.
std::vector<Piece> every_form() {
  return {message(0, 0, "first"),      wrapper(0, {1, 2, 3}),    message(0, 4, ""),          wrapper(0, {5, 9}, lz4),
          message(1, 10, "tenth"),     wrapper(1, {11, 12}),     batch({13, 14, 15}),        wrapper(1, {16, 18, 20}, lz4),
          message(1, 23, "with hole"), wrapper(1, {24, 25, 26}), message(0, 27, "old again")};
}

class OldLogTest : public LogTest {
 protected:
  OldLogTest() { leave_broken(); }

  void put(const std::string& log, std::int64_t base = 0) {
    overwrite(segment_path(topic_, base), log);
    for (const auto* suffix : {".index", ".timeindex"}) overwrite(segment_path(topic_, base, suffix), "");
  }
  void expect_read(const std::vector<Given>& records) {
    const auto seen = read_all(store_, topic_);
    EXPECT_FALSE(seen.error) << seen.message;
    EXPECT_EQ(seen.records, records);
  }

  // Starts anew with nothing but this log.
  void restart_with(const std::string& log) {
    const auto directory = partition_directory(topic_);
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".cut") || name == "recovery-point" || name == "cuts") std::filesystem::remove(entry.path());
    }
    put(log);
  }

  Topic topic_ = make_topic();
};

}  // namespace

TEST_F(OldLogTest, EveryFormInOneSegment) {
  const auto pieces = every_form();
  put(bytes_of(pieces));
  expect_read(records_of(pieces));
  const auto all = records_of(pieces);
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(reader.end().value, 28);
  for (std::int64_t offset = 0; offset <= 28; ++offset) {
    reader.seek({offset});
    std::vector<Given> expected;
    std::copy_if(all.begin(), all.end(), std::back_inserter(expected), [&](const Given& r) { return r.offset >= offset; });
    const auto seen = read_on(reader);
    EXPECT_FALSE(seen.error) << seen.message;
    EXPECT_EQ(seen.records, expected) << offset;
  }
}

TEST_F(OldLogTest, WhatIsKnownOfABatch) {
  put(bytes_of({message(0, 0, "a"), message(1, 1, "b"), batch({2})}));
  PartitionReader reader(store_, topic_, 0);
  const std::pair<TimestampType, std::int32_t> expected[] = {
      {TimestampType::none, no_epoch}, {TimestampType::create_time, no_epoch}, {TimestampType::create_time, 0}};
  for (const auto& [type, epoch] : expected) {
    ASSERT_FALSE(reader.read().empty());
    EXPECT_EQ(reader.timestamp_type(), type);
    EXPECT_EQ(reader.leader_epoch(), epoch);
  }
}

TEST_F(OldLogTest, Times) {
  put(bytes_of(every_form()));
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(reader.offset_at({t0})->value, 10);  // what is older has no time
  EXPECT_EQ(reader.offset_at({t0 + 17})->value, 18);
  EXPECT_EQ(reader.offset_at({t0 + 26})->value, 26);
  EXPECT_FALSE(reader.offset_at({t0 + 27}));
  EXPECT_EQ(reader.max_timestamp()->offset.value, 26);
  EXPECT_EQ(reader.max_timestamp()->timestamp.value, t0 + 26);
}

TEST_F(OldLogTest, SegmentsOfDifferentFormats) {
  const auto old = std::vector{message(0, 0, "a"), wrapper(0, {1, 2})};
  const auto newer = std::vector{wrapper(1, {3, 4}), batch({5})};
  put(bytes_of(old));
  put(bytes_of(newer), 3);
  auto all = records_of(old);
  for (const auto& record : records_of(newer)) all.push_back(record);
  expect_read(all);
}

// But where a message that stands uncompressed in a wrapper ends: that might as well be what follows damage.
TEST_F(OldLogTest, CutAtEveryLength) {
  auto pieces = every_form();
  for (auto& piece : pieces) {
    if (piece.records.size() > 1 && piece.bytes[16] != 2) piece = compressed_well(piece);
  }
  const auto log = bytes_of(pieces);
  std::size_t whole = 0;
  std::size_t whole_bytes = 0;
  for (std::size_t length = 0; length <= log.size(); ++length) {
    SCOPED_TRACE(length);
    if (whole < pieces.size() && length == whole_bytes + pieces[whole].bytes.size()) whole_bytes += pieces[whole++].bytes.size();
    restart_with(log.substr(0, length));
    auto expected = records_of(pieces, whole);
    expect_read(expected);
    const auto end = PartitionReader(store_, topic_, 0).end().value;
    EXPECT_EQ(end, expected.empty() ? 0 : expected.back().offset + 1);
    TestProducer producer(store_, topic_);
    producer.append("behind", t0 + 100);
    EXPECT_EQ(producer.notices.empty(), length == whole_bytes);
    expected.push_back({end, t0 + 100, std::nullopt, "behind"});
    expect_read(expected);
    if (HasFailure()) return;
  }
}

TEST_F(OldLogTest, ZerosBehindTheLastMessage) {
  const auto pieces = every_form();
  for (const std::size_t zeros : {1, 11, 12, 17, 18, 26, 61, 4096, 1 << 20}) {
    for (std::size_t count = 0; count <= pieces.size(); ++count) {
      SCOPED_TRACE(std::to_string(zeros) + " zeros behind " + std::to_string(count));
      restart_with(bytes_of({pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(count)}) + std::string(zeros, '\0'));
      auto expected = records_of(pieces, count);
      expect_read(expected);
      if (count % 5 != 0) continue;
      TestProducer(store_, topic_).append("behind", t0 + 100);
      expected.push_back({expected.empty() ? 0 : expected.back().offset + 1, t0 + 100, std::nullopt, "behind"});
      expect_read(expected);
    }
  }
}

// Nothing else than what was written is ever shown, everything before the flipped bit is, and a writer cuts nothing but the last
// batch. A bit in an offset may go unnoticed where the number still fits between its neighbours'; then only offsets differ.
TEST_F(OldLogTest, EveryFlippedBit) {
  const auto pieces = every_form();
  const auto log = bytes_of(pieces);
  int unnoticed = 0;
  for (std::size_t bit = 0; bit < log.size() * 8; ++bit) {
    SCOPED_TRACE("bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8));
    auto flipped = log;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    std::size_t hit = 0;
    std::size_t start = 0;
    while (start + pieces[hit].bytes.size() <= bit / 8) start += pieces[hit++].bytes.size();
    put(flipped);
    const auto before = records_of(pieces, hit);
    const auto seen = read_all(store_, topic_);
    const bool last = hit + 1 == pieces.size();
    const auto in_batch = bit / 8 - start;
    const bool in_offset = in_batch < 8;
    const bool in_epoch = pieces[hit].bytes[16] == 2 && in_batch >= 12 && in_batch < 16;
    if (!seen.error && !last && (in_offset || in_epoch)) {
      ++unnoticed;
      EXPECT_EQ(seen.records.size(), records_of(pieces).size());
    } else if (!last && in_offset) {  // of two offsets that contradict each other either may be the wrong one
      ASSERT_EQ(seen.error, ErrorCode::damaged);
      ASSERT_TRUE(seen.records == before || (hit > 0 && seen.records == records_of(pieces, hit - 1)));
    } else if (!last) {
      ASSERT_EQ(seen.error, ErrorCode::damaged);
      ASSERT_EQ(seen.records, before);
      ASSERT_NE(seen.message.find("position " + std::to_string(start) + " "), std::string::npos) << seen.message;
    } else if (!in_offset) {
      ASSERT_FALSE(seen.error);
      ASSERT_EQ(seen.records, before);
    }
    if (bit % 61 != 0 || in_offset || in_epoch) continue;
    try {
      TestProducer(store_, topic_).append("behind", t0 + 100);
      EXPECT_TRUE(last);
      const auto after = read_all(store_, topic_);
      EXPECT_FALSE(after.error);
      EXPECT_EQ(after.records.size(), before.size() + 1);
    } catch (const Error& error) {
      EXPECT_FALSE(last) << error.what();
      EXPECT_EQ(error.code(), ErrorCode::damaged);
      EXPECT_EQ(contents_of(segment_path(topic_, 0)), flipped);
    }
    restart_with(log);
  }
  EXPECT_LT(unnoticed, 32 + 40);  // the epoch's 32 bits; the offsets of what stands beside a hole
}

TEST_F(OldLogTest, WrappersThatOverlap) {
  put(bytes_of({wrapper(1, {0, 1, 2}), wrapper(1, {2, 3}), message(1, 4, "x")}));
  const auto seen = read_all(store_, topic_);
  EXPECT_EQ(seen.error, ErrorCode::damaged);
  EXPECT_EQ(seen.records.size(), 3u);
  EXPECT_NE(seen.message.find("its offset does not rise"), std::string::npos) << seen.message;
}

// A wrapper with the right checksum whose inside is wrong: the records before it, then its place.
TEST_F(OldLogTest, DamageInsideAWrapper) {
  const auto first = message(1, 0, "a");
  const auto bad = encoded({2, 1, gzip, t0, std::nullopt, "no gzip"});
  put(first.bytes + bad + message(1, 3, "b").bytes);
  const auto seen = read_all(store_, topic_);
  EXPECT_EQ(seen.error, ErrorCode::damaged);
  EXPECT_EQ(seen.records, first.records);
  EXPECT_NE(seen.message.find("position " + std::to_string(first.bytes.size()) + " (offset 2): gzip data is corrupt"),
            std::string::npos)
      << seen.message;
  PartitionReader reader(store_, topic_, 0);
  reader.seek({3});
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"b"});
}

// It is looked into by the scanner and by the decoder, each within the limit.
TEST_F(OldLogTest, DecompressionBomb) {
  const auto first = message(1, 0, "a");
  const auto bad = encoded({2, 1, gzip, t0, std::nullopt, gzipped(std::string(20u << 20, 'x'))});
  put(first.bytes + bad + message(1, 3, "b").bytes);
  const auto seen = read_all(store_, topic_, 0, {.window_bytes = 4096, .decompression_limit = 1 << 20});
  EXPECT_EQ(seen.error, ErrorCode::damaged);
  EXPECT_EQ(seen.records, first.records);
  EXPECT_NE(seen.message.find("decompressed data is over the limit"), std::string::npos) << seen.message;
}

TEST_F(OldLogTest, LengthsThatPromiseMuch) {
  for (const int magic : {0, 1, 2}) {
    const auto first = message(1, 0, "a");
    auto promise = magic == 2 ? batch({1}).bytes : message(magic, 1, "b").bytes;
    store_big_endian(promise.data() + 8, 0x7fffffff);
    restart_with(first.bytes + promise);
    expect_read(first.records);
    restart_with(first.bytes + promise + bytes_of({message(1, 2, "c"), message(1, 3, "d")}));
    EXPECT_EQ(read_all(store_, topic_).error, ErrorCode::damaged);
  }
}

// The value of a record may be a message set; the record being torn, its value is not what follows damage.
TEST_F(OldLogTest, MessagesInTheValueOfATornMessage) {
  const auto first = message(1, 0, "a");
  const auto torn = message(1, 1, bytes_of({message(1, 2, "b"), message(1, 3, "c")}) + std::string(50, 'x')).bytes;
  put(first.bytes + torn.substr(0, torn.size() - 60));
  expect_read(first.records);
}

TEST_F(OldLogTest, AppendingBehindOldMessages) {
  const auto pieces = every_form();
  put(bytes_of(pieces));
  auto expected = records_of(pieces);
  for (int i = 0; i < 3; ++i) {
    TestProducer producer(store_, topic_);
    producer.append("new", t0 + 100 + i);
    producer.sync();
    EXPECT_TRUE(producer.notices.empty());
    expected.push_back({28 + i, t0 + 100 + i, std::nullopt, "new"});
  }
  expect_read(expected);
  EXPECT_EQ(contents_of(segment_path(topic_, 0)).substr(0, bytes_of(pieces).size()), bytes_of(pieces));
}

TEST_F(OldLogTest, AppendingBehindOneShortMessage) {
  const auto only = message(0, 0, "");
  put(only.bytes);
  for (int i = 0; i < 2; ++i) TestProducer(store_, topic_).append("new", t0);
  auto expected = only.records;
  for (int i = 1; i < 3; ++i) expected.push_back({i, t0, std::nullopt, "new"});
  expect_read(expected);
}

TEST_F(OldLogTest, RestartOfTheHostBehindOldMessages) {
  const auto pieces = every_form();
  put(bytes_of(pieces));
  {
    TestProducer producer(store_, topic_);
    producer.append("new", t0 + 100);
    producer.sync();
  }
  restart_host(partition_directory(topic_));
  overwrite(segment_path(topic_, 0), contents_of(segment_path(topic_, 0)) + std::string(100, 'x'));
  TestProducer(store_, topic_).append("newer", t0 + 101);
  auto expected = records_of(pieces);
  expected.push_back({28, t0 + 100, std::nullopt, "new"});
  expected.push_back({29, t0 + 101, std::nullopt, "newer"});
  expect_read(expected);
}

class OldIndexTest : public OldLogTest {
 protected:
  struct Entry {
    std::int32_t offset;
    std::int32_t position;
  };
  OldIndexTest() { topic_ = make_topic({{"index.interval.bytes", "400"}}, 1, "indexed"); }

  // Message sets of three messages each, and where they begin.
  void make_log() {
    for (std::int64_t offset = 0; offset < 300; offset += 3) {
      starts_.push_back(static_cast<std::int32_t>(log_.size()));
      for (std::int64_t i = 0; i < 3; ++i) {
        const auto magic = offset < 150 ? 0 : 1;
        const auto piece = offset % 2 == 0 ? message(magic, offset + i, std::string(30, 'v')) : wrapper(magic, {offset + i});
        log_ += piece.bytes;
        records_.push_back(piece.records[0]);
      }
    }
    put(log_);
  }
  void put_index(const std::vector<Entry>& entries) {
    std::string index(entries.size() * 8, '\0');
    for (std::size_t i = 0; i < entries.size(); ++i) {
      store_big_endian(index.data() + 8 * i, entries[i].offset);
      store_big_endian(index.data() + 8 * i + 4, entries[i].position);
    }
    overwrite(segment_path(topic_, 0, ".index"), index);
  }
  void expect_found_everywhere() {
    PartitionReader reader(store_, topic_, 0);
    for (std::size_t offset = 0; offset < records_.size(); offset += 7) {
      reader.seek({static_cast<std::int64_t>(offset)});
      const auto seen = read_on(reader);
      ASSERT_FALSE(seen.error) << seen.message;
      ASSERT_EQ(seen.records, std::vector<Given>(records_.begin() + static_cast<std::ptrdiff_t>(offset), records_.end()));
    }
  }

  std::string log_;
  std::vector<std::int32_t> starts_;
  std::vector<Given> records_;
};

// A broker's entries have the first offset of what was appended at once, or its last, and the position where it begins.
TEST_F(OldIndexTest, EntriesForSeveralMessagesAtOnce) {
  make_log();
  for (const int within : {0, 2}) {
    std::vector<Entry> entries;
    for (std::size_t i = 3; i < starts_.size(); i += 5)
      entries.push_back({static_cast<std::int32_t>(3 * i) + within, starts_[i]});
    put_index(entries);
    expect_found_everywhere();
  }
}

TEST_F(OldIndexTest, WrongEntries) {
  make_log();
  put_index({{9, starts_[4]}, {30, starts_[10] + 1}, {60, starts_[30]}, {90, 1 << 30}, {120, -5}});
  expect_found_everywhere();
}

// What a writer makes of a broker's indexes: entries for each batch, by the one rule; and they are used.
TEST_F(OldIndexTest, WritersIndexOldMessages) {
  make_log();
  put_index({{9, starts_[3]}, {17, starts_[5]}});
  TestProducer(store_, topic_).append("new", t0 + 1000);
  records_.push_back({300, t0 + 1000, std::nullopt, "new"});
  const auto index = contents_of(segment_path(topic_, 0, ".index"));
  std::string expected;
  std::int64_t indexed = 0;
  std::int64_t offset = 0;
  const auto log = contents_of(segment_path(topic_, 0));
  for (std::int64_t at = 0; at < std::ssize(log); ++offset) {
    if (at - indexed > 400) {
      char entry[8];
      store_big_endian(entry, static_cast<std::int32_t>(offset));
      store_big_endian(entry + 4, static_cast<std::int32_t>(at));
      expected.append(entry, 8);
      indexed = at;
    }
    at += 12 + load_big_endian<std::int32_t>(log.data() + at + 8);
  }
  EXPECT_GT(expected.size(), 80u);
  EXPECT_EQ(index, expected);
  expect_found_everywhere();
  TestProducer(store_, topic_).append("newer", t0 + 1001);  // believes what it finds
  EXPECT_EQ(contents_of(segment_path(topic_, 0, ".index")), expected);
}

}  // namespace partlog::test

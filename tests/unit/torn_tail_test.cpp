// What a writer that died leaves at the end of a segment, and damage that is none of that.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "format/checkpoint.h"
#include "format/record_batch.h"
#include "log/partition_directory.h"
#include "log/torn_tail.h"
#include "os/file.h"
#include "partlog/error.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

std::string random_text(std::mt19937_64& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

class TornTailTest : public LogTest {
 protected:
  static constexpr std::int64_t start_time = 1'700'000'000'000;

  // A segment that is closed and one with `batches` batches behind it, as a writer leaves them.
  void make_log(int batches, const Configs& configs = {{"segment.bytes", "400"}}) {
    topic_ = make_topic(configs);
    TestProducer producer(store_, topic_);
    while (check_log(directory()).segments.size() < 2) add(producer);
    for (int i = 1; i < batches; ++i) add(producer);
    whole_ = checked(topic_);
    ASSERT_EQ(whole_.segments.size(), 2u);
    ASSERT_EQ(std::ssize(last().batches), batches);
    files_ = snapshot(directory());
  }
  void add(TestProducer& producer) {
    producer.append("value " + std::to_string(added_), start_time + added_);
    ++added_;
  }

  std::string directory() const { return partition_directory(topic_); }
  const CheckedSegment& last() const { return whole_.segments.back(); }
  std::string last_name(const std::string& suffix = ".log") const {
    return fs::path(segment_path(topic_, last().base, suffix)).filename();
  }

  void restore() {
    for (const auto& entry : fs::directory_iterator(directory())) {
      if (!files_.contains(entry.path().filename())) fs::remove(entry.path());
    }
    for (const auto& [name, contents] : files_) {
      if (name != "append.lock") overwrite(directory() + "/" + name, contents);
    }
  }

  static std::vector<std::string> values_of(const CheckedLog& log) {
    std::vector<std::string> values;
    for (const auto& record : log.records()) values.push_back(record.value.value_or("(null)"));
    return values;
  }

  // The last segment's log holds `contents`, whatever that is behind some whole batches: nobody loses one, nobody sees another.
  void expect_trimmed(const std::string& contents, bool only_cut_short = false) {
    overwrite(directory() + "/" + last_name(), contents);
    const auto before = snapshot(directory());
    const auto sound = check_log(directory(), {.dense = true, .indexes = false});
    const auto& segment = sound.segments.back();
    const auto end = segment.batches.empty() ? 0 : segment.batches.back().position + segment.batches.back().size;
    const auto next = sound.end();
    auto values = values_of(sound);

    const auto seen = read_all(store_, topic_);
    ASSERT_FALSE(seen.error) << seen.message;
    ASSERT_EQ(seen.values(), values);
    ASSERT_EQ(PartitionReader(store_, topic_, 0).end().value, next);
    ASSERT_EQ(snapshot(directory()), before) << "a reader changed something";

    TestProducer producer(store_, topic_);
    producer.append("behind", start_time + 1000);
    const auto gone = contents.substr(static_cast<std::size_t>(end));
    const auto stable = format::parse_recovery_point(before.at("recovery-point"), "recovery-point").offset.value;
    expect_notice(producer.notices, gone.size(), end, next, stable);
    expect_side_file(gone, end, only_cut_short);
    values.emplace_back("behind");
    const auto after = checked(topic_);
    ASSERT_EQ(after.end(), next + 1);
    ASSERT_EQ(values_of(after), values);
    ASSERT_EQ(read_all(store_, topic_).values(), values);
    expect_nothing_else_changed(before, next);
  }

  void expect_notice(const std::vector<std::string>& notices, std::size_t bytes, std::int64_t position, std::int64_t offset,
                     std::int64_t stable) const {
    if (bytes == 0 && offset >= stable) {
      ASSERT_TRUE(notices.empty()) << notices.front();
      return;
    }
    ASSERT_EQ(notices.size(), 1u);
    const bool is_lost = notices[0].find(std::to_string(stable - offset) + " acknowledged offset") != std::string::npos;
    ASSERT_EQ(is_lost, offset < stable) << notices[0];
    if (bytes == 0) return;
    ASSERT_NE(notices[0].find("cut " + std::to_string(bytes) + " bytes"), std::string::npos) << notices[0];
    ASSERT_NE(notices[0].find("position " + std::to_string(position) + " (offset " + std::to_string(offset) + ")"),
              std::string::npos)
        << notices[0];
  }

  void expect_side_file(const std::string& gone, std::int64_t position, bool only_cut_short) {
    const auto path = segment_path(topic_, last().base, "." + std::to_string(position) + ".cut");
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(gone[at]); };
    const bool zeros = std::all_of(gone.begin(), gone.end(), [](char c) { return c == 0; });
    const bool none = zeros || only_cut_short || gone.size() < 17;
    bool surely = !none && byte(16) != 2;
    if (!none && byte(16) == 2 && gone.size() >= 61) {
      const auto size = (byte(8) << 24 | byte(9) << 16 | byte(10) << 8 | byte(11)) + 12;
      surely = size >= 61 && std::cmp_less_equal(size, gone.size());
    }
    if (fs::exists(path)) {
      ASSERT_FALSE(none);
      ASSERT_EQ(contents_of(path), gone);
    } else {
      ASSERT_FALSE(surely);
    }
  }

  // The recovery point may not stay behind the end: it would vouch for bytes that are not written yet.
  void expect_nothing_else_changed(const Files& before, std::int64_t end) const {
    const auto after = snapshot(directory());
    for (const auto& [name, contents] : after) {
      if (name.starts_with(fs::path(last_name()).stem().string())) continue;
      if (name == "recovery-point" && contents != before.at(name)) {
        ASSERT_GT(format::parse_recovery_point(before.at(name), name).offset.value, end);
        ASSERT_EQ(format::parse_recovery_point(contents, name).offset.value, end);
        ASSERT_TRUE(after.contains("cuts"));
        continue;
      }
      if (name == "cuts") {
        ASSERT_GT(format::parse_recovery_point(before.at("recovery-point"), name).offset.value, end);
        ASSERT_EQ(format::parse_cuts(contents, name).back().offset.value, end);
        continue;
      }
      ASSERT_TRUE(before.contains(name)) << name;
      ASSERT_EQ(contents, before.at(name)) << name;
    }
  }

  Topic topic_;
  CheckedLog whole_;
  Files files_;
  int added_ = 0;
};

TEST_F(TornTailTest, CutAtEveryLength) {
  make_log(4);
  const auto log = files_[last_name()];
  for (std::size_t length = 0; length <= log.size(); ++length) {
    SCOPED_TRACE("length " + std::to_string(length));
    restore();
    expect_trimmed(log.substr(0, length), true);
    if (HasFatalFailure()) return;
  }
}

TEST_F(TornTailTest, PaddedBehindEveryLength) {
  std::mt19937_64 random(random_seed());
  make_log(3);
  const auto log = files_[last_name()];
  const auto synced = log::PartitionDirectory(directory(), false).recovery_point()->position.value;
  for (std::size_t length = 0; length <= log.size(); ++length) {
    for (const std::size_t padding : {1, 17, 61, 100, 4096, 70000}) {
      const bool whole = std::any_of(last().batches.begin(), last().batches.end(),
                                     [&](const auto& batch) { return std::cmp_equal(batch.position, length); });
      if (std::cmp_equal(length + padding, synced)) continue;  // as long as it was when it was synced: damage
      if (padding > 100 && !whole && length != log.size() && random() % 8 != 0) continue;
      for (const bool zeros : {true, false}) {
        SCOPED_TRACE("length " + std::to_string(length) + ", " + std::to_string(padding) + (zeros ? " zeros" : " random bytes"));
        restore();
        expect_trimmed(log.substr(0, length) + (zeros ? std::string(padding, '\0') : random_text(random, padding)));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Nine bytes of a header whose length promises two gigabytes are no reason to ask for that much memory.
TEST_F(TornTailTest, HeaderThatPromisesAHugeBatch) {
  make_log(2);
  auto header = files_[last_name()].substr(0, 61);
  header[8] = 0x7f;
  header[7] = static_cast<char>(header[7] + 2);
  expect_trimmed(files_[last_name()] + header + std::string(5000, 'x'), true);
}

// Bytes that look like a header of format v0 or v1 by chance.
TEST_F(TornTailTest, PaddingThatLooksLikeAnOldMessage) {
  make_log(2);
  for (const char magic : {0, 1}) {
    SCOPED_TRACE(static_cast<int>(magic));
    restore();
    std::string old(100, 'x');
    old.replace(0, 12, std::string("\0\0\0\0\0\0\0\x40\0\0\0\x30", 12));
    old[16] = magic;
    expect_trimmed(files_[last_name()] + old);
  }
}

// Once called damage: the reader stands at a torn tail, which is cut, and the log goes on in the next segment.
TEST_F(TornTailTest, CutUnderAReaderBeforeTheLogRolls) {
  make_log(2);
  overwrite(directory() + "/" + last_name(), files_[last_name()] + files_[last_name()].substr(0, 70));
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(read_on(reader).values(), values_of(whole_));
  TestProducer(store_, topic_).append(std::string(1000, 'x'), start_time + 1000);
  ASSERT_EQ(checked(topic_).segments.size(), 3u);
  const auto seen = read_on(reader);
  EXPECT_FALSE(seen.error) << seen.message;
  EXPECT_EQ(seen.values(), std::vector<std::string>{std::string(1000, 'x')});
}

// A later cut at the same place must not overwrite what an earlier one kept.
TEST_F(TornTailTest, SideFileOfAnEarlierCutIsKept) {
  make_log(2);
  const auto log = files_[last_name()];
  const std::string first(100, 'a'), second(90, 'b');
  expect_trimmed(log + first);
  overwrite(directory() + "/" + last_name(), log + second);
  TestProducer(store_, topic_).append("again", start_time + 1000);
  EXPECT_EQ(contents_of(segment_path(topic_, last().base, "." + std::to_string(log.size()) + ".cut")), first + second);
}

class TornIndexTest : public TornTailTest {
 protected:
  // What may have become of an index file of entries of `step` bytes; nullopt: it is missing.
  static std::map<std::string, std::optional<std::string>> variants(const std::string& good, std::size_t step,
                                                                    std::mt19937_64& random) {
    std::map<std::string, std::optional<std::string>> all = {
        {"missing", std::nullopt},
        {"empty", ""},
        {"an entry short", good.substr(0, good.size() - step)},
        {"bytes short", good.substr(0, good.size() - 3)},
        {"one entry", good.substr(0, step)},
        {"its last entry twice", good + good.substr(good.size() - step)},
        {"bytes long", good + "abc"},
        {"garbage behind", good + random_text(random, 10 * step)},
        {"zeroed", std::string(good.size(), '\0')},
        {"padded to 10 MiB", good + std::string((10u << 20) / step * step - good.size(), '\0')},
        {"random", random_text(random, good.size())},
        {"random and long", random_text(random, 1000 * step)},
    };
    auto last_wrong = good;
    last_wrong[good.size() - 1] = static_cast<char>(last_wrong[good.size() - 1] + 1);
    all["its last entry wrong"] = last_wrong;
    return all;
  }

  void put(const std::string& name, const std::optional<std::string>& contents) const {
    const auto path = directory() + "/" + name;
    contents ? overwrite(path, *contents) : static_cast<void>(fs::remove(path));
  }

  void expect_read_well() {
    const auto before = snapshot(directory());
    PartitionReader reader(store_, topic_, 0);
    const auto all = read_on(reader);
    ASSERT_FALSE(all.error) << all.message;
    ASSERT_EQ(all.values(), values_of(whole_));
    ASSERT_EQ(reader.end().value, whole_.end());
    for (std::int64_t offset = 0; offset < whole_.end(); ++offset) {
      reader.seek({offset});
      const auto records = reader.read();
      ASSERT_FALSE(records.empty());
      ASSERT_EQ(records.front().offset.value, offset);
      ASSERT_EQ(reader.offset_at({start_time + offset}), Offset{offset});
    }
    ASSERT_EQ(reader.offset_at({start_time + whole_.end()}), std::nullopt);
    ASSERT_EQ(reader.max_timestamp()->offset.value, whole_.end() - 1);
    ASSERT_EQ(snapshot(directory()), before) << "a reader changed something";
  }
};

TEST_F(TornIndexTest, OfTheActiveSegmentCostTimeOnlyAndAreRepairedByTheFirstWriter) {
  std::mt19937_64 random(random_seed());
  make_log(16, {{"segment.bytes", "1300"}, {"index.interval.bytes", "200"}});
  const auto indexes = variants(files_[last_name(".index")], 8, random);
  const auto times = variants(files_[last_name(".timeindex")], 12, random);
  const auto log = files_[last_name()];
  const auto good = std::pair("good", std::optional<std::string>());
  std::vector<std::pair<std::string, std::string>> cases;
  for (const auto& [kind, contents] : indexes) {
    cases.emplace_back(kind, "good");
    cases.emplace_back("good", kind);
    cases.emplace_back(kind, kind);
  }
  for (const auto& [index, time] : cases) {
    SCOPED_TRACE("index " + index + ", time index " + time);
    restore();
    if (index != "good") put(last_name(".index"), indexes.at(index));
    if (time != "good") put(last_name(".timeindex"), times.at(time));
    expect_read_well();
    expect_trimmed(log);
    if (HasFatalFailure()) return;
    if (index.find("MiB") != std::string::npos) continue;  // it takes long
    restore();
    if (index != "good") put(last_name(".index"), indexes.at(index));
    if (time != "good") put(last_name(".timeindex"), times.at(time));
    expect_trimmed(log.substr(0, 1 + random() % log.size()), true);
    if (HasFatalFailure()) return;
  }
}

TEST_F(TornIndexTest, OfAClosedSegmentCostTimeOnly) {
  std::mt19937_64 random(random_seed());
  make_log(2, {{"segment.bytes", "1300"}, {"index.interval.bytes", "200"}});
  for (const std::string suffix : {".index", ".timeindex"}) {
    const auto name = fs::path(segment_path(topic_, 0, suffix)).filename().string();
    for (const auto& [kind, contents] : variants(files_[name], suffix == ".index" ? 8 : 12, random)) {
      SCOPED_TRACE(suffix + " " + kind);
      restore();
      put(name, contents);
      expect_read_well();
      if (HasFatalFailure()) return;
    }
  }
  restore();
}

class DamageTest : public TornTailTest {
 protected:
  void TearDown() override {
    restore();
    TornTailTest::TearDown();
  }

  // One bit of each byte of a batch, in a file of the partition.
  void flip_bits_of(const CheckedSegment& segment, const CheckedBatch& batch, bool writer_sees_it) {
    std::mt19937_64 random(random_seed());
    const auto name = fs::path(segment.path).filename().string();
    for (std::int64_t at = batch.position; at < batch.position + batch.size; ++at) {
      const auto in_batch = at - batch.position;
      if (in_batch >= 12 && in_batch < 16) continue;  // the leader epoch stands outside the checksum, and every value is one
      const auto bit = random() % 8;
      SCOPED_TRACE(name + " byte " + std::to_string(in_batch) + " of the batch at " + std::to_string(batch.position) + ", bit " +
                   std::to_string(bit));
      restore();
      auto damaged = files_[name];
      damaged[static_cast<std::size_t>(at)] = static_cast<char>(damaged[static_cast<std::size_t>(at)] ^ (1 << bit));
      overwrite(directory() + "/" + name, damaged);
      const auto before = snapshot(directory());
      PartitionReader reader(store_, topic_, 0);
      const auto seen = read_on(reader);
      ASSERT_EQ(seen.error, ErrorCode::damaged) << seen.message;
      ASSERT_NE(seen.message.find(name + " position " + std::to_string(batch.position)), std::string::npos) << seen.message;
      ASSERT_EQ(std::ssize(seen.records), batch.base_offset);
      for (int again = 0; again < 2; ++again) {
        const auto more = read_on(reader);
        ASSERT_EQ(more.error, ErrorCode::damaged) << more.message;
        ASSERT_TRUE(more.records.empty());
      }
      if (writer_sees_it) {
        TestProducer producer(store_, topic_);
        try {
          producer.append("refused");
          FAIL() << "appended behind damage";
        } catch (const Error& error) {
          ASSERT_EQ(error.code(), ErrorCode::damaged) << error.what();
        }
        ASSERT_TRUE(producer.notices.empty()) << producer.notices.front();
      }
      ASSERT_EQ(snapshot(directory()), before);
    }
  }
};

TEST_F(DamageTest, InTheActiveSegment) {
  make_log(4);
  flip_bits_of(last(), last().batches[1], true);
}

TEST_F(DamageTest, InTheFirstBatchOfTheActiveSegment) {
  make_log(3);
  flip_bits_of(last(), last().batches[0], true);
}

TEST_F(DamageTest, InAClosedSegment) {
  make_log(3);
  flip_bits_of(whole_.segments[0], whole_.segments[0].batches[1], false);
}

TEST_F(DamageTest, InABatchWithATornTailAtTheEnd) {
  make_log(4);
  const auto& batch = last().batches[1];
  auto contents = files_[last_name()];
  const auto inside = static_cast<std::size_t>(batch.position + batch.size - 1);
  contents[inside] = static_cast<char>(contents[inside] ^ 1);
  contents.resize(contents.size() - 5);
  overwrite(directory() + "/" + last_name(), contents);
  const auto before = snapshot(directory());
  EXPECT_EQ(read_all(store_, topic_).error, ErrorCode::damaged);
  EXPECT_EQ(PartitionReader(store_, topic_, 0).end().value, whole_.end() - 1);
  EXPECT_THROW(TestProducer(store_, topic_).append("refused"), Error);
  EXPECT_EQ(snapshot(directory()), before);
}

TEST_F(TornIndexTest, ThatCannotBeOpenedOrReadCostTimeOnly) {
  make_log(16, {{"segment.bytes", "1300"}, {"index.interval.bytes", "200"}});
  for (const std::string kind : {"directory", "loop", "pipe", "no permission", "socket"}) {
    for (const auto base : {std::int64_t{0}, last().base}) {
      for (const std::string suffix : {".index", ".timeindex"}) {
        SCOPED_TRACE(kind + " " + std::to_string(base) + suffix);
        const auto path = segment_path(topic_, base, suffix);
        fs::remove(path);
        if (kind == "directory") fs::create_directory(path);
        if (kind == "loop") fs::create_symlink(path, path);
        if (kind == "pipe") ::mkfifo(path.c_str(), 0666);
        if (kind == "socket") ::mknod(path.c_str(), S_IFSOCK | 0666, 0);
        if (kind == "no permission") {
          overwrite(path, "x");
          fs::permissions(path, fs::perms::none);
        }
        PartitionReader reader(store_, topic_, 0);
        EXPECT_EQ(read_on(reader).values(), values_of(whole_));
        for (std::int64_t offset = 0; offset < whole_.end(); ++offset) {
          reader.seek({offset});
          const auto records = reader.read();
          ASSERT_FALSE(records.empty());
          ASSERT_EQ(records.front().offset.value, offset);
          ASSERT_EQ(reader.offset_at({start_time + offset}), Offset{offset});
        }
        ASSERT_EQ(reader.max_timestamp()->offset.value, whole_.end() - 1);
        fs::remove(path);
        overwrite(path, files_[fs::path(path).filename()]);
      }
    }
  }
}

// What the search for whole batches makes of a file, without a log around it.
class WholeBatchesBehindTest : public ::testing::Test {
 protected:
  static std::string batch(std::int64_t offset, const std::string& value) {
    format::BatchBuilder builder;
    Record record;
    record.value = Bytes(value);
    record.timestamp = {1'700'000'000'000};
    builder.add(record);
    const auto bytes = builder.finish();
    format::set_offset_and_epoch(bytes, {offset}, 0);
    return {bytes.data(), bytes.size()};
  }
  static std::string batches(std::int64_t from, std::int64_t to, std::size_t value_size = 10) {
    std::string all;
    for (auto offset = from; offset < to; ++offset) all += batch(offset, std::string(value_size, 'v'));
    return all;
  }
  static void flip(std::string& bytes, std::size_t at, int bit = 0) { bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit)); }

  std::optional<Offset> end_behind(const std::string& contents, std::int64_t position = 0, std::int64_t expected = 0) const {
    overwrite(directory_.path("x"), contents);
    return log::end_of_chain_behind(os::File::open(directory_.path("x"), os::File::Mode::read), position, {expected});
  }

  TemporaryDirectory directory_;
};

TEST_F(WholeBatchesBehindTest, AreFoundBetweenAFlippedBitAndATornTail) {
  const auto size = batch(0, std::string(10, 'v')).size();
  const auto good = batches(0, 10);
  for (const auto torn : {std::size_t{1}, std::size_t{20}, size - 1, size}) {
    for (std::size_t at = 0; at < size; ++at) {
      if (at < 8 || (at >= 12 && at < 16)) continue;  // the offset and the leader epoch: no wrong checksum
      const auto bit = static_cast<int>((at + torn) % 8);
      auto contents = good.substr(0, 9 * size + torn);
      flip(contents, at, bit);
      ASSERT_EQ(end_behind(contents), Offset{torn == size ? 10 : 9}) << "byte " << at << " bit " << bit << " torn " << torn;
    }
  }
  auto contents = good + std::string(5000, '\2') + batch(12, "behind garbage") + std::string(300, 'x');
  flip(contents, size - 1);
  EXPECT_EQ(end_behind(contents), Offset{13});
}

TEST_F(WholeBatchesBehindTest, AreNotBelievedIfTheirOffsetsDoNotRise) {
  EXPECT_EQ(end_behind(std::string(70, 'x') + batches(0, 10), 0, 10), std::nullopt);
  EXPECT_EQ(end_behind(std::string(70, 'x') + batches(0, 11), 0, 10), Offset{11});
  EXPECT_EQ(end_behind(std::string(70, 'x') + batch(std::int64_t{1} << 40, "x")), std::nullopt);
  EXPECT_EQ(end_behind(std::string(70, 'x') + batch(1 << 30, "its offset is wrong") + batches(1, 3)), Offset{3});
}

TEST_F(WholeBatchesBehindTest, AreNotThoseInAValueOfTheTornBatch) {
  const auto outer = batch(3, batches(0, 50) + std::string(10, 'x'));
  for (std::size_t length = outer.size() - 10 - 1; length > 61; length -= 7) {
    // Where the file ends exactly behind a batch of the value nothing tells it from a flipped bit.
    const auto inner = length - (outer.size() - 11 - batches(0, 50).size());
    if (inner % batch(0, std::string(10, 'v')).size() == 0) continue;
    ASSERT_EQ(end_behind(outer.substr(0, length), 0, 3), std::nullopt) << length;
  }
  EXPECT_EQ(end_behind(outer.substr(0, outer.size() - 1) + "?", 0, 3), Offset{50}) << "whole, but its checksum is wrong";
}

TEST_F(WholeBatchesBehindTest, AreFoundBehindAHeaderWhoseLengthLeadsBeyondTheEnd) {
  auto contents = batches(0, 10);
  contents[8] = 0x7f;
  contents[11] = 0x11;
  EXPECT_EQ(end_behind(contents), Offset{10});
}

TEST_F(WholeBatchesBehindTest, AreSearchedForInTimeThatGrowsWithTheFile) {
  constexpr std::int64_t count = 40000;
  const auto first = batch(0, std::string(10, 'v')).size();
  auto contents = batches(0, count);
  flip(contents, first - 1);
  flip(contents, contents.size() - 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(end_behind(contents), Offset{count - 1});
  contents[8] = 0x7f;  // taken for a prefix: only what leads to the end counts
  contents[11] = 0x11;
  EXPECT_EQ(end_behind(contents), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));  // once minutes
}

TEST_F(WholeBatchesBehindTest, AreAssumedWhereTooManyHeadersPromiseMuch) {
  const auto header = batch(0, std::string(10, 'v')).substr(0, 61);
  std::string contents(70, 'x');
  for (int i = 0; i < 40000; ++i) {
    contents += header;
    contents.replace(contents.size() - 61 + 8, 4, std::string("\0\x10\0\0", 4));  // a MiB
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(end_behind(contents), Offset{0});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace partlog::test

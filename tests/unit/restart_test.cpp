// The host has restarted since the recovery point was written: what lies behind it may have holes.
#include <filesystem>

#include "format/checkpoint.h"
#include "log/partition_directory.h"
#include "partlog/error.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

class RestartTest : public LogTest {
 protected:
  std::string directory() const { return partition_directory(topic_); }
  log::PartitionDirectory partition() const { return {directory(), false}; }

  // `stable` records that are synced, then `unstable` ones that are not, one a batch.
  void make_log(int stable, int unstable, const Configs& configs = {}) {
    topic_ = make_topic(configs);
    TestProducer producer(store_, topic_);
    for (int i = 0; i < stable; ++i) producer.append("value " + std::to_string(i));
    producer.sync();
    for (int i = stable; i < stable + unstable; ++i) producer.append("value " + std::to_string(i));
  }

  static std::vector<std::string> numbered(int count) {
    std::vector<std::string> values;
    for (int i = 0; i < count; ++i) values.push_back("value " + std::to_string(i));
    return values;
  }

  void flip(const CheckedSegment& segment, std::size_t batch, std::int64_t byte = 70) {
    auto bytes = contents_of(segment.path);
    auto& c = bytes[static_cast<std::size_t>(segment.batches[batch].position + byte)];
    c = static_cast<char>(c ^ 1);
    overwrite(segment.path, bytes);
  }

  void expect_log_of(int count) {
    const auto before = snapshot(directory());
    PartitionReader reader(store_, topic_, 0);
    const auto seen = read_on(reader);
    EXPECT_FALSE(seen.error) << seen.message;
    EXPECT_EQ(seen.values(), numbered(count));
    EXPECT_EQ(reader.end().value, count);
    EXPECT_EQ(store_.partition_info(topic_, 0).end.value, count);
    EXPECT_EQ(snapshot(directory()), before);
  }

  // A writer finds damage: it neither appends behind it nor gives offsets away a second time.
  void expect_no_append() {
    TestProducer producer(store_, topic_);
    try {
      producer.append("refused");
      ADD_FAILURE() << "appended";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::damaged) << error.what();
    }
  }

  // The first writer after the restart; the log is `count` records long then, and one more.
  std::vector<std::string> append_after(int count) {
    TestProducer producer(store_, topic_);
    producer.append("value " + std::to_string(count));
    EXPECT_EQ(read_all(store_, topic_).values(), numbered(count + 1));
    EXPECT_EQ(checked(topic_).end(), count + 1);
    return producer.notices;
  }

  Topic topic_;
};

TEST_F(RestartTest, FirstInvalidBatchBehindTheRecoveryPointIsTheTail) {
  make_log(3, 4);
  restart_host(directory());
  const auto log = checked(topic_);
  flip(log.segments[0], 4);
  expect_log_of(4);
  const auto gone = contents_of(log.segments[0].path).substr(static_cast<std::size_t>(log.segments[0].batches[4].position));
  const auto notices = append_after(4);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("restart of the host"), std::string::npos) << notices[0];
  EXPECT_NE(notices[0].find("(offset 4)"), std::string::npos) << notices[0];
  EXPECT_NE(notices[0].find("cut " + std::to_string(gone.size()) + " bytes"), std::string::npos) << notices[0];
  EXPECT_EQ(contents_of(segment_path(topic_, 0, "." + std::to_string(log.segments[0].batches[4].position) + ".cut")), gone);
}

TEST_F(RestartTest, HoleOfZerosIsTheTail) {
  make_log(2, 5);
  restart_host(directory());
  const auto log = checked(topic_);
  auto bytes = contents_of(log.segments[0].path);
  const auto at = static_cast<std::size_t>(log.segments[0].batches[3].position);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 100, '\0');
  overwrite(log.segments[0].path, bytes);
  expect_log_of(3);
  append_after(3);
}

TEST_F(RestartTest, InvalidBatchRightAtTheRecoveryPoint) {
  make_log(3, 2);
  restart_host(directory());
  flip(checked(topic_).segments[0], 3);
  expect_log_of(3);
  append_after(3);
}

TEST_F(RestartTest, DamageBeforeTheRecoveryPointIsDamage) {
  make_log(4, 2);
  restart_host(directory());
  flip(checked(topic_).segments[0], 1);
  const auto before = snapshot(directory());
  PartitionReader reader(store_, topic_, 0);
  for (int again = 0; again < 2; ++again) {
    const auto seen = read_on(reader);
    EXPECT_EQ(seen.error, ErrorCode::damaged) << seen.message;
    EXPECT_EQ(seen.values().size(), again == 0 ? 1u : 0u);
  }
  expect_no_append();
  auto after = snapshot(directory());
  for (const auto* name : {"00000000000000000000.index", "00000000000000000000.timeindex"}) after[name] = before.at(name);
  EXPECT_EQ(after, before);
  leave_broken();
}

// Bytes that were on stable storage are missing: their offsets must not be given to other records.
TEST_F(RestartTest, FileThatEndsBeforeTheRecoveryPointIsDamage) {
  make_log(4, 1);
  restart_host(directory());
  const auto log = checked(topic_);
  fs::resize_file(log.segments[0].path, static_cast<std::uintmax_t>(log.segments[0].batches[2].position));
  EXPECT_EQ(PartitionReader(store_, topic_, 0).end().value, 2);
  const auto seen = read_all(store_, topic_);
  EXPECT_EQ(seen.values(), numbered(2));
  expect_no_append();
  EXPECT_EQ(std::ssize(contents_of(log.segments[0].path)), log.segments[0].batches[2].position);
  leave_broken();
}

class RestartWithSegmentsTest : public RestartTest {
 protected:
  // Three batches a segment; what is synced ends in segment 3, and segments 6, 9 and 12 follow.
  void make_segments() {
    make_log(4, 10, {{"segment.bytes", "240"}, {"index.interval.bytes", "100"}});
    // The rolls have moved the recovery point since.
    auto point = *partition().recovery_point();
    const auto log = checked(topic_);
    ASSERT_GT(log.segments.size(), 3u);
    per_segment_ = std::ssize(log.segments[0].batches);
    point.offset = {log.segments[1].batches[1].base_offset};
    point.segment = {log.segments[1].base};
    point.position = {log.segments[1].batches[1].position};
    overwrite(directory() + "/recovery-point", format::format_recovery_point(point));
    restart_host(directory());
    log_ = log;
  }
  std::int64_t per_segment_ = 0;
  CheckedLog log_;
};

TEST_F(RestartWithSegmentsTest, AllValidKeepsAll) {
  make_segments();
  expect_log_of(14);
  EXPECT_TRUE(append_after(14).empty());
}

TEST_F(RestartWithSegmentsTest, MissingSegmentEndsTheLogAndTheRestIsSetAside) {
  make_segments();
  const auto gone = log_.segments[2];
  for (const std::string suffix : {".log", ".index", ".timeindex"}) fs::remove(segment_path(topic_, gone.base, suffix));
  const auto later = contents_of(log_.segments[3].path);
  const auto count = static_cast<int>(gone.base);
  expect_log_of(count);
  const auto notices = append_after(count);
  EXPECT_EQ(notices.size(), log_.segments.size() - 3);
  EXPECT_EQ(contents_of(segment_path(topic_, log_.segments[3].base, ".0.cut")), later);
  EXPECT_FALSE(fs::exists(segment_path(topic_, log_.segments[3].base, ".index")));
}

TEST_F(RestartWithSegmentsTest, InvalidBatchInAMiddleSegment) {
  make_segments();
  flip(log_.segments[2], 1);
  const auto count = static_cast<int>(log_.segments[2].batches[1].base_offset);
  expect_log_of(count);
  append_after(count);
}

TEST_F(RestartWithSegmentsTest, SegmentThatLostItsEnd) {
  make_segments();
  fs::resize_file(log_.segments[2].path, static_cast<std::uintmax_t>(log_.segments[2].batches[1].position));
  const auto count = static_cast<int>(log_.segments[2].batches[1].base_offset);
  expect_log_of(count);
  append_after(count);
}

TEST_F(RestartWithSegmentsTest, EmptySegmentInTheMiddle) {
  make_segments();
  fs::resize_file(log_.segments[2].path, 0);
  const auto count = static_cast<int>(log_.segments[2].base);
  expect_log_of(count);
  append_after(count);
}

// The log grows over the same offsets and the host restarts again: what was set aside first is still there.
TEST_F(RestartWithSegmentsTest, SegmentsSetAsideTwice) {
  make_segments();
  const auto first = contents_of(log_.segments[3].path);
  fs::remove(log_.segments[2].path);
  const auto count = static_cast<int>(log_.segments[2].base);
  append_after(count);
  {
    TestProducer producer(store_, topic_);
    for (int i = count + 1; i < 14; ++i) producer.append("value " + std::to_string(i));
  }
  const auto second = contents_of(log_.segments[3].path);
  restart_host(directory());
  auto point = *partition().recovery_point();
  point.offset = point.segment = {log_.segments[1].base};
  point.position = {0};
  overwrite(directory() + "/recovery-point", format::format_recovery_point(point));
  fs::remove(log_.segments[2].path);
  append_after(count);
  const auto kept = contents_of(segment_path(topic_, log_.segments[3].base, ".0.cut"));
  EXPECT_EQ(kept, first + second);
}

TEST_F(RestartTest, OneLineOfCutsPerBoot) {
  make_log(3, 2);
  EXPECT_TRUE(partition().cuts().empty());
  restart_host(directory());
  expect_log_of(5);
  EXPECT_TRUE(partition().cuts().empty()) << "a reader wrote it";
  append_after(5);
  ASSERT_EQ(partition().cuts().size(), 1u);
  EXPECT_EQ(partition().cuts()[0].offset, Offset{5});
  EXPECT_EQ(partition().cuts()[0].boot_id, os::boot_id());
  append_after(6);
  EXPECT_EQ(partition().cuts().size(), 1u);
  restart_host(directory());
  append_after(7);
  ASSERT_EQ(partition().cuts().size(), 2u);
  EXPECT_EQ(partition().cuts()[1].offset, Offset{7});
}

TEST_F(RestartTest, IndexesAreBuiltAnew) {
  make_log(2, 40, {{"index.interval.bytes", "150"}});
  restart_host(directory());
  for (const auto* suffix : {".index", ".timeindex"}) {
    const auto path = segment_path(topic_, 0, suffix);
    auto bytes = contents_of(path);
    const auto third = std::ssize(bytes) / 3;
    std::fill(bytes.begin() + third, bytes.end() - third, '\x55');  // the last entries stay right
    overwrite(path, bytes);
  }
  expect_log_of(42);
  append_after(42);
}

TEST_F(RestartTest, RecoveryPointOfZerosMeansThatNothingIsKnown) {
  make_log(2, 3);
  for (const auto& contents : {std::string(), std::string(64, '\0')}) {
    overwrite(directory() + "/recovery-point", contents);
    flip(checked(topic_).segments[0], 3);
    expect_log_of(3);
    append_after(3);
    TestProducer(store_, topic_).append("value 4");
  }
}

// A reader that has seen a torn tail reads nothing of it together with what the first writer puts in its place.
TEST_F(RestartTest, ReaderAtATornTailSeesTheBatchThatReplacesIt) {
  make_log(2, 1);
  restart_host(directory());
  const auto path = checked(topic_).segments[0].path;
  ASSERT_EQ(contents_of(path).back(), '\0');  // the number of headers, as of any other batch
  fs::resize_file(path, fs::file_size(path) - 1);
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(read_on(reader).values(), numbered(2));
  TestProducer(store_, topic_).append("VALUE 2");
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"VALUE 2"});
}

// What the one before holds was on stable storage as well: nothing whole is cut there.
TEST_F(RestartTest, DamageInFrontOfALastSegmentThatIsGoneIsDamage) {
  make_log(10, 0, {{"segment.bytes", "250"}});
  restart_host(directory());
  const auto log = checked(topic_);
  ASSERT_GE(log.segments.size(), 3u);
  fs::remove(log.segments.back().path);
  const auto& last = log.segments[log.segments.size() - 2];
  ASSERT_GE(last.batches.size(), 3u);
  flip(last, 1);
  const auto bytes = contents_of(last.path);
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(read_on(reader).error, ErrorCode::damaged);
  EXPECT_EQ(reader.end().value, log.segments.back().base);
  expect_no_append();
  EXPECT_EQ(contents_of(last.path), bytes);
  leave_broken();
}

// Also one that ends just where a line of it does: the last two segments may both have holes.
TEST_F(RestartTest, PartOfTheRecoveryPointMeansThatNothingIsKnown) {
  make_log(2, 8, {{"segment.bytes", "250"}});
  restart_host(directory());
  const auto log = checked(topic_);
  ASSERT_GE(log.segments.size(), 3u);
  const auto& last_but_one = log.segments[log.segments.size() - 2];
  flip(last_but_one, 1);
  const auto end = last_but_one.base + 1;
  const auto point = contents_of(directory() + "/recovery-point");
  for (std::size_t size = 0; size < point.size(); ++size) {
    SCOPED_TRACE(size);
    overwrite(directory() + "/recovery-point", point.substr(0, size));
    expect_log_of(static_cast<int>(end));
  }
  append_after(static_cast<int>(end));
}

// A reader that has read on behind the recovery point goes on behind the cut with what is stored there next.
TEST_F(RestartTest, ReaderAtTheTailSeesTheWriterGoOn) {
  make_log(2, 3);
  restart_host(directory());
  flip(checked(topic_).segments[0], 4);
  PartitionReader reader(store_, topic_, 0);
  EXPECT_EQ(read_on(reader).values(), numbered(4));
  append_after(4);
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"value 4"});
}

}  // namespace
}  // namespace partlog::test

// Reading: positions, times, limits, gaps, compressed and control batches, and files that change under the reader.
#include "partlog/reader.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "base/byte_order.h"
#include "base/crc32c.h"
#include "format/record_batch.h"
#include "os/system.h"
#include "partlog/error.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

struct Shape {
  Compression compression = Compression::none;
  int last_delta = -1;  // larger than the records need: compaction took records at the end
  int flags = 0;        // added to the attributes
};

class ReaderTest : public LogTest {
 protected:
  std::string directory() const { return partition_directory(topic_); }
  void append(int count, std::int64_t first_time = 1'700'000'000'000) {
    TestProducer producer(store_, topic_);
    for (int i = 0; i < count; ++i, ++appended_) producer.append("value " + std::to_string(appended_), first_time + appended_);
  }
  PartitionReader reader() const { return {store_, topic_, 0}; }

  // A segment with these batches, beside what is there.
  void write_segment(std::int64_t base, const std::vector<std::string>& batches) {
    std::string all;
    for (const auto& batch : batches) all += batch;
    overwrite(segment_path(topic_, base), all);
    for (const auto* suffix : {".index", ".timeindex"}) overwrite(segment_path(topic_, base, suffix), "");
    rules_.dense = rules_.indexes = false;
  }

  static std::string batch(std::int64_t base, const std::vector<std::string>& values, const Shape& shape = {}) {
    format::BatchBuilder builder({shape.compression, std::nullopt});
    for (const auto& value : values) {
      Record record;
      record.value = Bytes(value);
      record.timestamp = {1'700'000'000'000};
      builder.add(record);
    }
    if (values.empty()) builder.add({});
    const auto bytes = builder.finish();
    std::string text(bytes.data(), values.empty() ? format::batch_header_size : bytes.size());
    if (values.empty()) {  // kept for its producer's state
      store_big_endian(text.data() + 8, static_cast<std::int32_t>(text.size() - 12));
      store_big_endian(text.data() + 57, 0);
    }
    store_big_endian(text.data(), base);
    store_big_endian(text.data() + 21, static_cast<std::int16_t>(static_cast<int>(shape.compression) | shape.flags));
    if (shape.last_delta >= 0) store_big_endian(text.data() + 23, static_cast<std::int32_t>(shape.last_delta));
    store_big_endian(text.data() + 17, crc32c(std::span<const char>(text).subspan(21)));
    return text;
  }

  static std::vector<std::int64_t> offsets_of(const ReadResult& result) {
    std::vector<std::int64_t> offsets;
    for (const auto& record : result.records) offsets.push_back(record.offset);
    return offsets;
  }

  Topic topic_;
  int appended_ = 0;
};

TEST_F(ReaderTest, SeeksToEveryOffsetWithEveryLimit) {
  topic_ = make_topic({{"segment.bytes", "700"}, {"index.interval.bytes", "100"}});
  TestProducer producer(store_, topic_);
  for (int i = 0; i < 12; ++i) producer.append_batch({"a" + std::to_string(i), "b" + std::to_string(i), "c" + std::to_string(i)});
  const auto all = read_all(store_, topic_).values();
  ASSERT_EQ(all.size(), 36u);
  ASSERT_GT(checked(topic_).segments.size(), 1u);
  auto reader = this->reader();
  for (std::int64_t from = 0; from <= 36; ++from) {
    for (std::int64_t limit = from; limit <= 37; ++limit) {
      reader.seek({from});
      const auto seen = read_on(reader, Offset{limit});
      ASSERT_FALSE(seen.error) << seen.message;
      ASSERT_EQ(seen.values(), std::vector<std::string>(all.begin() + from, all.begin() + std::min<std::int64_t>(limit, 36)));
      ASSERT_EQ(reader.position().value, std::min<std::int64_t>(limit, 36));
    }
  }
}

TEST_F(ReaderTest, OffsetsOutsideTheLog) {
  topic_ = make_topic();
  append(3);
  auto reader = this->reader();
  reader.seek({4});
  for (int again = 0; again < 2; ++again) {
    const auto seen = read_on(reader);
    EXPECT_EQ(seen.error, ErrorCode::offset_out_of_range);
    EXPECT_NE(seen.message.find("offset 4 is beyond the end offset 3"), std::string::npos) << seen.message;
  }
  reader.seek({3});
  EXPECT_TRUE(reader.read().empty());
  append(2);
  EXPECT_EQ(read_on(reader).values(), (std::vector<std::string>{"value 3", "value 4"}));
  reader.seek({4});
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"value 4"});
}

TEST_F(ReaderTest, BelowTheLogStart) {
  topic_ = make_topic();
  append(6);
  overwrite(directory() + "/log-start-offset", "4\n");
  auto reader = this->reader();
  EXPECT_EQ(reader.start(), Offset{4});
  const auto seen = read_on(reader);
  EXPECT_EQ(seen.error, ErrorCode::offset_out_of_range);
  EXPECT_NE(seen.message.find("offset 0 is below the log start offset 4"), std::string::npos) << seen.message;
  reader.seek({4});
  EXPECT_EQ(read_on(reader).values(), (std::vector<std::string>{"value 4", "value 5"}));
  EXPECT_EQ(reader.offset_at({0}), Offset{4});
}

// The start lies behind all that is stored: the next record is the first that readers see.
TEST_F(ReaderTest, LogStartAboveTheEnd) {
  topic_ = make_topic();
  append(3);
  overwrite(directory() + "/log-start-offset", "10\n");
  EXPECT_EQ(reader().end(), Offset{10});
  EXPECT_TRUE(read_all(store_, topic_).records.empty());
  append(1);
  const auto seen = read_all(store_, topic_);
  EXPECT_EQ(offsets_of(seen), std::vector<std::int64_t>{10});
  rules_.dense = false;
}

TEST_F(ReaderTest, EndWhileGrowing) {
  topic_ = make_topic({{"segment.bytes", "300"}});
  auto reader = this->reader();
  EXPECT_EQ(reader.end(), Offset{0});
  for (int i = 1; i < 20; ++i) {
    append(1);
    ASSERT_EQ(reader.end().value, i);
    ASSERT_EQ(read_on(reader).records.size(), 1u);
  }
}

// Cut, padded, zeroed, random, with times of other eras, or gone. (One that names a batch by its right time is believed.)
void spoil_time_indexes(const std::string& directory, std::mt19937_64& random) {
  constexpr std::size_t entry_size = 12;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".timeindex") paths.push_back(entry.path());
  }
  for (const auto& path : paths) {
    auto bytes = contents_of(path);
    const auto kind = random() % 8;
    if (kind == 0) bytes.resize(random() % (bytes.size() + 1));
    if (kind == 1) bytes += std::string(entry_size * (random() % 4) + random() % 2, '\0');
    if (kind == 2) bytes.assign(bytes.size(), '\0');
    if (kind == 3) bytes.assign(bytes.size(), '\xff');
    if (kind == 4) std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
    for (std::size_t at = 0; kind == 5 && at + entry_size <= bytes.size(); at += entry_size) bytes[at + random() % 6] ^= 1;
    kind == 6 ? void(fs::remove(path)) : overwrite(path, bytes);
  }
}

TEST_F(ReaderTest, TimesFoundAreThoseOfASearchByHand) {
  leave_broken();
  std::mt19937_64 random(random_seed());
  for (int round = 0; round < scaled(12); ++round) {
    const bool rising = round % 3 == 0;
    topic_ = make_topic({{"segment.bytes", "500"}, {"index.interval.bytes", "100"}}, 1, "t" + std::to_string(round));
    std::vector<std::int64_t> times;
    {
      TestProducer producer(store_, topic_);
      for (int i = 0; i < 40; ++i) {
        std::vector<Record> records(1 + random() % 3);
        for (auto& record : records) {
          const auto time = static_cast<std::int64_t>(rising ? times.size() / 3 : random() % 30);
          record.timestamp = {1000 + time};
          record.value = Bytes("v");
          times.push_back(1000 + time);
        }
        producer.producer->append(records);
        producer.producer->flush();
      }
    }
    for (const std::int64_t start : {0, 1, 25, 0, 25, 0}) {
      if (start == 25) spoil_time_indexes(partition_directory(topic_), random);
      overwrite(partition_directory(topic_) + "/log-start-offset", std::to_string(start) + "\n");
      auto reader = this->reader();
      const auto from = times.begin() + start;
      for (std::int64_t time = 995; time < 1045; ++time) {
        const auto due = std::find_if(from, times.end(), [&](auto t) { return t >= time; });
        const auto found = reader.offset_at({time});
        ASSERT_EQ(found ? found->value : -1, due == times.end() ? -1 : due - times.begin()) << time << " from " << start;
        const auto limited = reader.offset_at({time}, Offset{30});
        const auto below = due == times.end() || due - times.begin() >= 30 ? -1 : due - times.begin();
        ASSERT_EQ(limited ? limited->value : -1, below) << time;
      }
      const auto largest = reader.max_timestamp();
      const auto due = std::max_element(from, times.end());
      ASSERT_TRUE(largest);
      ASSERT_EQ(largest->timestamp.value, *due);
      ASSERT_EQ(largest->offset.value, due - times.begin()) << "from " << start;
      ASSERT_EQ(reader.position(), Offset{0}) << "looking up moved the reader";
    }
    overwrite(partition_directory(topic_) + "/log-start-offset", "0\n");
  }
}

TEST_F(ReaderTest, TimesOfAnEmptyLog) {
  topic_ = make_topic();
  auto reader = this->reader();
  EXPECT_FALSE(reader.offset_at({0}));
  EXPECT_FALSE(reader.max_timestamp());
}

// Kafka's compaction takes records out of batches, batches out of segments, and segments.
TEST_F(ReaderTest, GapsThatCompactionLeaves) {
  topic_ = make_topic({{"cleanup.policy", "compact"}});
  write_segment(0, {batch(0, {"0", "1"}, {.last_delta = 4}), batch(5, {"5"}), batch(9, {"9"}, {.last_delta = 3})});
  write_segment(20, {batch(22, {"22", "23"}), batch(24, {}, {.last_delta = 5}), batch(31, {"31"})});
  write_segment(40, {batch(40, {"40"})});
  const std::vector<std::int64_t> offsets = {0, 1, 5, 9, 22, 23, 31, 40};
  auto reader = this->reader();
  EXPECT_EQ(offsets_of(read_on(reader)), offsets);
  EXPECT_EQ(reader.end(), Offset{41});
  for (std::int64_t from = 0; from <= 41; ++from) {
    for (std::int64_t limit = from; limit <= 42; ++limit) {
      std::vector<std::int64_t> due;
      std::copy_if(offsets.begin(), offsets.end(), std::back_inserter(due), [&](auto o) { return o >= from && o < limit; });
      reader.seek({from});
      const auto seen = read_on(reader, Offset{limit});
      ASSERT_FALSE(seen.error) << seen.message << " from " << from;
      ASSERT_EQ(offsets_of(seen), due) << from << " to " << limit;
      ASSERT_TRUE(reader.position().value >= std::min<std::int64_t>(limit, 41)) << from << " to " << limit;
    }
  }
}

TEST_F(ReaderTest, EmptyFirstSegment) {
  topic_ = make_topic();
  write_segment(0, {});
  write_segment(7, {batch(7, {"7"}), batch(8, {"8"})});
  EXPECT_EQ(read_all(store_, topic_).values(), (std::vector<std::string>{"7", "8"}));
  EXPECT_EQ(reader().end(), Offset{9});
}

TEST_F(ReaderTest, ControlBatchesArePassedOver) {
  topic_ = make_topic();
  constexpr int transactional = 16, control = 32;
  write_segment(0, {batch(0, {"0"}, {.flags = transactional}), batch(1, {"marker"}, {.flags = transactional | control}),
                    batch(2, {"2"}), batch(3, {"marker"}, {.flags = transactional | control})});
  auto reader = this->reader();
  EXPECT_EQ(read_on(reader).values(), (std::vector<std::string>{"0", "2"}));
  EXPECT_EQ(reader.position(), Offset{4});
  EXPECT_EQ(reader.end(), Offset{4});
  reader.seek({1});
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"2"});
}

class CodecReaderTest : public ReaderTest, public ::testing::WithParamInterface<Compression> {};

TEST_P(CodecReaderTest, GivesTheRecordsAndBoundsABomb) {
  topic_ = make_topic();
  const std::vector<std::string> values = {std::string(3000, 'a'), "", std::string(200, 'b')};
  write_segment(0, {batch(0, values, {.compression = GetParam()}),
                    batch(3, {std::string(4 << 20, '\0')}, {.compression = GetParam()}), batch(4, {"behind"})});
  ReaderOptions options;
  options.decompression_limit = 1 << 20;
  PartitionReader reader(store_, topic_, 0, options);
  const auto seen = read_on(reader);
  EXPECT_EQ(seen.values(), values);
  EXPECT_EQ(seen.error, ErrorCode::damaged) << seen.message;
  EXPECT_NE(seen.message.find("offset 3"), std::string::npos) << seen.message;
  const auto again = read_on(reader);
  EXPECT_EQ(again.error, ErrorCode::damaged);
  EXPECT_TRUE(again.records.empty());
  reader.seek({4});
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"behind"});
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodecReaderTest,
                         ::testing::Values(Compression::gzip, Compression::snappy, Compression::lz4, Compression::zstd));

TEST_F(ReaderTest, FollowsAcrossManyRolls) {
  topic_ = make_topic({{"segment.bytes", "160"}});
  auto reader = this->reader();
  TestProducer producer(store_, topic_);
  std::mt19937_64 random(random_seed());
  int written = 0, seen = 0;
  while (written < scaled(300)) {
    for (auto n = random() % 7; n > 0; --n) producer.append("value " + std::to_string(written++));
    const auto more = read_on(reader);
    ASSERT_FALSE(more.error) << more.message;
    for (const auto& value : more.values()) ASSERT_EQ(value, "value " + std::to_string(seen++));
    ASSERT_EQ(seen, written);
  }
  EXPECT_GT(checked(topic_).segments.size(), static_cast<std::size_t>(written) / 3);
}

// Something happens when the reader, at the end of what it has read, looks at the directory.
class HookedSystem : public os::System {
 public:
  int stat(const char* path, struct stat* status) override {
    if (hook) std::exchange(hook, nullptr)();
    return System::stat(path, status);
  }
  std::function<void()> hook;
};

// A later segment is seen; what was appended to this one just before is read first.
TEST_F(ReaderTest, AppendedAndRolledBetweenTheEndAndTheListing) {
  topic_ = make_topic({{"segment.bytes", "250"}});
  append(1);
  auto reader = this->reader();
  EXPECT_EQ(read_on(reader).values(), std::vector<std::string>{"value 0"});
  HookedSystem system;
  os::ScopedSystem scoped(system);
  system.hook = [&] { append(7); };
  const auto seen = read_on(reader);
  EXPECT_FALSE(seen.error) << seen.message;
  EXPECT_EQ(offsets_of(seen), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_GT(checked(topic_).segments.size(), 2u);
}

// As compaction does: the new file is renamed over the old one, others go, and the reader is in the middle.
TEST_F(ReaderTest, SegmentsReplacedAndRemovedUnderTheReader) {
  topic_ = make_topic({{"segment.bytes", "300"}, {"index.interval.bytes", "100"}});
  append(30);
  const auto log = checked(topic_);
  ASSERT_GT(log.segments.size(), 5u);
  for (std::int64_t at = 0; at < log.segments[3].base; ++at) {
    const auto files = snapshot(directory());
    auto reader = this->reader();
    reader.seek({at});
    ASSERT_EQ(reader.read(Offset{at + 1}).size(), 1u);
    // The first three become one; what is in it does not change.
    std::string merged;
    for (int i = 0; i < 3; ++i) merged += contents_of(log.segments[static_cast<std::size_t>(i)].path);
    overwrite(segment_path(topic_, 0, ".swap"), merged);
    fs::rename(segment_path(topic_, 0, ".swap"), segment_path(topic_, 0));
    for (const auto i : {1u, 2u}) {
      for (const std::string suffix : {".log", ".index", ".timeindex"})
        fs::remove(segment_path(topic_, log.segments[i].base, suffix));
    }
    const auto rest = read_on(reader);
    ASSERT_FALSE(rest.error) << rest.message << " at " << at;
    ASSERT_EQ(rest.records.size(), 30u - static_cast<std::size_t>(at) - 1) << "at " << at;
    ASSERT_EQ(rest.records.front().offset, at + 1);
    ASSERT_EQ(read_all(store_, topic_).records.size(), 30u);
    for (const auto& [name, contents] : files) {
      if (name != "append.lock") overwrite(directory() + "/" + name, contents);
    }
  }
}

// Retention: the reader finishes the file that it has open, then goes on at the next that is there.
TEST_F(ReaderTest, SegmentsUnlinkedUnderTheReader) {
  topic_ = make_topic({{"segment.bytes", "300"}});
  append(20);
  const auto log = checked(topic_);
  auto reader = this->reader();
  ASSERT_FALSE(reader.read(Offset{1}).empty());
  const auto start = log.segments[3].base;  // retention moves it before segments go
  std::ofstream(topic_.directory + "/0/log-start-offset") << start << '\n';
  for (std::size_t i = 0; i < 3; ++i) {
    for (const std::string suffix : {".log", ".index", ".timeindex"})
      fs::remove(segment_path(topic_, log.segments[i].base, suffix));
  }
  const auto rest = read_on(reader);
  EXPECT_EQ(rest.error, ErrorCode::offset_out_of_range) << "what it had opened is read to its end";
  std::vector<std::int64_t> due;
  for (std::int64_t offset = 1; offset < log.segments[1].base; ++offset) due.push_back(offset);
  EXPECT_EQ(offsets_of(rest), due);
  reader.seek({start});
  EXPECT_EQ(offsets_of(read_on(reader)).front(), start);
}

TEST_F(ReaderTest, DeletedTopicIsAnError) {
  topic_ = make_topic();
  append(2);
  auto reader = this->reader();
  EXPECT_EQ(read_on(reader).records.size(), 2u);
  store_.delete_topic(topic_);
  EXPECT_EQ(read_on(reader).error, ErrorCode::not_found);
}

// Its offsets say nothing about those of the topic that was read.
TEST_F(ReaderTest, TopicMadeAnewIsNotReadOn) {
  topic_ = make_topic({{"segment.bytes", "300"}});
  append(10);
  auto reader = this->reader();
  ASSERT_EQ(read_on(reader).records.size(), 10u);
  store_.delete_topic(topic_);
  topic_ = make_topic({{"segment.bytes", "300"}});
  append(30);
  for (int again = 0; again < 2; ++again) {
    const auto seen = read_on(reader);
    EXPECT_EQ(seen.error, ErrorCode::not_found) << seen.message;
    EXPECT_EQ(offsets_of(seen), std::vector<std::int64_t>{});
  }
  EXPECT_EQ(read_all(store_, topic_).records.size(), 30u);
}

}  // namespace
}  // namespace partlog::test

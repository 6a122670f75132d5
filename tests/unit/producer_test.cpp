// What a producer does with records before and after they are stored: partitions, batches, limits, times, acknowledgements, and
// when a new segment is begun.
#include "partlog/producer.h"

#include <filesystem>

#include "base/murmur2.h"
#include "format/record_batch.h"
#include "os/system.h"
#include "partlog/error.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

constexpr std::int64_t day = 24LL * 3600 * 1000;

class ProducerTest : public LogTest {
 protected:
  // A view: the value must outlive it.
  static Record record_of(std::string_view value, Timestamp timestamp = {1'700'000'000'000}) {
    Record record;
    record.value = Bytes(value);
    record.timestamp = timestamp;
    return record;
  }
  static std::string refusal(Producer& producer, const Record& record) {
    try {
      producer.append({&record, 1});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::refused);
      return error.what();
    }
    ADD_FAILURE() << "accepted";
    return {};
  }
  std::vector<std::int64_t> bases(const Topic& topic) {
    std::vector<std::int64_t> all;
    for (const auto& segment : checked(topic).segments) all.push_back(segment.base);
    return all;
  }
};

// org.apache.kafka.common.utils.UtilsTest.testMurmur2
TEST_F(ProducerTest, KeysLandWhereKafkaPutsThem) {
  const std::pair<std::string, std::int32_t> known[] = {{"21", -973932308},
                                                        {"foobar", -790332482},
                                                        {"a-little-bit-long-string", -985981536},
                                                        {"a-little-bit-longer-string", -1486304829},
                                                        {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
                                                        {"abc", 479470107}};
  const auto topic = make_topic({}, 7);
  TestProducer producer(store_, topic);
  for (const auto& [key, hash] : known) {
    EXPECT_EQ(static_cast<std::int32_t>(murmur2(key)), hash);
    Record record = record_of(key);
    record.key = Bytes(key);
    producer.producer->append({&record, 1});
  }
  producer.sync();
  for (int p = 0; p < 7; ++p) {
    for (const auto& record : read_all(store_, topic, p).records) {
      const auto hash = std::find_if(std::begin(known), std::end(known), [&](auto& k) { return k.first == *record.key; })->second;
      EXPECT_EQ(p, (hash & 0x7fffffff) % 7) << *record.key;
    }
  }
}

TEST_F(ProducerTest, RecordsWithoutKeyStickToAPartitionForABatch) {
  const auto topic = make_topic({}, 3);
  ProducerOptions options;
  options.batch_bytes = 300;
  TestProducer producer(store_, topic, options);
  constexpr int count = 200;
  for (int i = 0; i < count; ++i) {
    const auto value = std::string(20, 'x');
    const auto record = record_of(value);
    producer.producer->append({&record, 1});
  }
  producer.sync();
  std::int64_t stored = 0;
  for (std::size_t i = 0; i < producer.acknowledgements.size(); ++i) {
    const auto& ack = producer.acknowledgements[i];
    stored += ack.last - ack.first + 1;
    if (i == 0) continue;
    EXPECT_EQ(ack.partition, (producer.acknowledgements[i - 1].partition + 1) % 3);
    if (i + 1 < producer.acknowledgements.size()) {
      EXPECT_GT(ack.last - ack.first + 1, 5) << "batch " << i;
    }
  }
  EXPECT_EQ(stored, count);
}

TEST_F(ProducerTest, LingerIsCountedFromTheOldestWaitingRecord) {
  ManualClock clock;
  os::ScopedClock scoped(clock);
  const auto topic = make_topic();
  ProducerOptions options;
  options.linger = std::chrono::microseconds(7000);
  TestProducer producer(store_, topic, options);
  EXPECT_FALSE(producer.producer->flush_due());
  const auto due = std::chrono::steady_clock::time_point(std::chrono::microseconds(clock.monotonic_us() + 7000));
  const auto record = record_of("one", clock.now());
  producer.producer->append({&record, 1});
  clock.advance(3);
  producer.producer->append({&record, 1});
  EXPECT_EQ(producer.producer->flush_due(), due);
  EXPECT_EQ(producer.producer->stored(), 0u);
  producer.producer->flush();
  EXPECT_EQ(producer.producer->stored(), 2u);
  EXPECT_FALSE(producer.producer->flush_due());
}

TEST_F(ProducerTest, ProgressIsWhatIsStoredInAllPartitions) {
  const auto topic = make_topic({}, 2);
  ProducerOptions options;
  options.batch_bytes = 200;
  TestProducer producer(store_, topic, options);
  std::string keys[2];
  for (int i = 0; keys[0].empty() || keys[1].empty(); ++i) keys[partition_of_key(std::to_string(i), 2)] = std::to_string(i);
  const std::string filling(30, 'x');
  const auto append = [&](int partition) {
    Record record = record_of(filling);
    record.key = Bytes(keys[partition]);
    const std::uint32_t size = 31;
    producer.producer->append({&record, 1}, {&size, 1});
  };
  append(1);
  append(0);
  append(1);
  EXPECT_EQ(producer.producer->progress().records, 0u);
  for (int i = 0; i < 10; ++i) append(0);
  EXPECT_GT(producer.producer->stored(), 0u);
  EXPECT_EQ(producer.producer->progress().records, 0u) << "the first record still waits";
  for (int i = 0; i < 10; ++i) append(1);
  const auto progress = producer.producer->progress();
  EXPECT_GT(progress.records, 0u);
  EXPECT_EQ(progress.bytes, progress.records * 31);
  EXPECT_EQ(producer.producer->taken(), 23u);
  producer.sync();
  EXPECT_EQ(producer.producer->progress().records, 23u);
  EXPECT_EQ(producer.producer->stored_bytes(), 23u * 31);
}

TEST_F(ProducerTest, TooLargeRecordIsRefusedAndThoseBeforeItAreTaken) {
  const auto topic = make_topic({{"max.message.bytes", "200"}});
  TestProducer producer(store_, topic);
  const std::string small(50, 's'), large(200, 'l');
  const Record records[] = {record_of(small), record_of(small), record_of(large), record_of(small)};
  try {
    producer.producer->append(records);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::refused);
    EXPECT_NE(std::string(error.what()).find("max.message.bytes=200"), std::string::npos) << error.what();
  }
  EXPECT_EQ(producer.producer->taken(), 2u);
  producer.sync();
  EXPECT_EQ(read_all(store_, topic).values(), (std::vector<std::string>{small, small}));
  const auto log = checked(topic);
  for (const auto& batch : log.segments[0].batches) EXPECT_LE(batch.size, 200);
}

// The limit counts bytes as stored.
TEST_F(ProducerTest, LargeRecordThatCompressesFits) {
  const auto topic = make_topic({{"max.message.bytes", "200"}, {"compression.type", "zstd"}});
  TestProducer producer(store_, topic);
  const std::string large(5000, 'l');
  producer.append_batch({"before", large, "behind"});
  EXPECT_EQ(read_all(store_, topic).values(), (std::vector<std::string>{"before", large, "behind"}));
  const auto log = checked(topic);
  for (const auto& batch : log.segments[0].batches) EXPECT_LE(batch.size, 200);
}

TEST_F(ProducerTest, RecordThatReadersWouldNotUnpackIsRefused) {
  const auto topic = make_topic();
  ProducerOptions options;
  options.compression = Compression::zstd;
  TestProducer producer(store_, topic, options);
  std::string value(format::default_decompression_limit - 12, 'a');  // a record without key adds 13 bytes
  EXPECT_NE(refusal(*producer.producer, record_of(value)).find("readers unpack no more"), std::string::npos);
  value.resize(value.size() - 1);
  const auto record = record_of(value);
  producer.producer->append({&record, 1});
  producer.sync();
  EXPECT_EQ(read_all(store_, topic).records.size(), 1U);
}

TEST_F(ProducerTest, BatchesStayWhatReadersUnpackHoweverLargeTheyMayBe) {
  const auto topic = make_topic({{"max.message.bytes", "500000000"}});
  ProducerOptions options;
  options.compression = Compression::lz4;
  options.batch_bytes = 100'000'000;
  TestProducer producer(store_, topic, options);
  const std::string value(40'000'000, 'a');
  const auto record = record_of(value);
  for (int i = 0; i < 2; ++i) producer.producer->append({&record, 1});
  producer.sync();
  EXPECT_EQ(read_all(store_, topic).records.size(), 2U);
}

// The bytes are never looked at.
TEST_F(ProducerTest, RecordOfNearly2GiBIsRefused) {
  const auto topic = make_topic({{"max.message.bytes", "2147483647"}});
  for (const auto compression : {Compression::none, Compression::zstd}) {
    ProducerOptions options;
    options.compression = compression;
    options.batch_bytes = 2147483647;
    TestProducer producer(store_, topic, options);
    const char byte = 'a';
    for (const std::size_t size : {2147483570UL, 2147483647UL}) {
      const auto message = refusal(*producer.producer, record_of({&byte, size}));
      EXPECT_NE(message.find("the record makes a batch of 2147483"), std::string::npos) << message;
    }
  }
}

TEST_F(ProducerTest, LimitOfExactlyTheBatchIsEnough) {
  for (int limit = 120; limit < 140; ++limit) {
    const auto topic = make_topic({{"max.message.bytes", std::to_string(limit)}}, 1, "t" + std::to_string(limit));
    TestProducer producer(store_, topic);
    const std::string value(60, 'x');  // a batch of 61 + 2 + 6 + 60 bytes
    const auto record = record_of(value);
    bool taken = true;
    try {
      producer.producer->append({&record, 1});
      producer.producer->flush();
    } catch (const Error&) {
      taken = false;
    }
    const auto log = checked(topic);
    EXPECT_EQ(log.records().size(), taken ? 1u : 0u);
    if (taken) {
      EXPECT_LE(log.segments[0].batches[0].size, limit);
    }
    EXPECT_EQ(taken, limit >= 129) << limit;
  }
}

TEST_F(ProducerTest, CompactedTopicTakesNoRecordWithoutKey) {
  const auto topic = make_topic({{"cleanup.policy", "compact"}});
  TestProducer producer(store_, topic);
  EXPECT_NE(refusal(*producer.producer, record_of("no key")).find("key"), std::string::npos);
  Record record = record_of("value");
  record.key = Bytes("");
  producer.producer->append({&record, 1});
  producer.sync();
  EXPECT_EQ(read_all(store_, topic).records.size(), 1u);
}

TEST_F(ProducerTest, TimestampLimits) {
  ManualClock clock;
  os::ScopedClock scoped(clock);
  const auto topic = make_topic({{"message.timestamp.after.max.ms", "1000"}});
  TestProducer producer(store_, topic);
  EXPECT_NE(refusal(*producer.producer, record_of("v", clock.now() + 1001)).find("message.timestamp.after.max.ms"),
            std::string::npos);
  EXPECT_NE(refusal(*producer.producer, record_of("v", {-2})).find("1970"), std::string::npos);
  const Record records[] = {record_of("latest", clock.now() + 1000), record_of("earliest", {0}), record_of("now", no_timestamp)};
  producer.producer->append(records);
  producer.sync();
  const auto seen = read_all(store_, topic).records;
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].timestamp, clock.now().value + 1000);
  EXPECT_EQ(seen[1].timestamp, 0);
  EXPECT_EQ(seen[2].timestamp, clock.now().value);
}

TEST_F(ProducerTest, LogAppendTimeIsTheTimeOfAppending) {
  ManualClock clock;
  os::ScopedClock scoped(clock);
  const auto topic = make_topic({{"message.timestamp.type", "LogAppendTime"}});
  TestProducer producer(store_, topic);
  const auto record = record_of("v", {1000});
  producer.producer->append({&record, 1});
  clock.advance(5000);
  producer.producer->flush();
  PartitionReader reader(store_, topic, 0);
  const auto seen = reader.read();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].timestamp, clock.now());
  EXPECT_EQ(reader.timestamp_type(), TimestampType::log_append_time);
  rules_.dense = true;
}

class CountingSyncs : public os::System {
 public:
  int fdatasync(int fd) override { return ++syncs, System::fdatasync(fd); }
  int syncs = 0;
};

TEST_F(ProducerTest, AcknowledgementsFollowThePolicy) {
  const auto topic = make_topic();
  CountingSyncs system;
  os::ScopedSystem scoped(system);
  for (const auto policy : {SyncPolicy::none, SyncPolicy::batch, SyncPolicy::end}) {
    TestProducer producer(store_, topic, with_sync(policy));
    const auto before = system.syncs;
    for (int i = 0; i < 3; ++i) producer.append("v");
    EXPECT_EQ(producer.acknowledgements.size(), policy == SyncPolicy::end ? 0u : 3u);
    if (policy == SyncPolicy::batch) {
      EXPECT_GE(system.syncs, before + 3);
    } else {
      EXPECT_EQ(system.syncs, before);
    }
    EXPECT_EQ(producer.producer->durable(), policy == SyncPolicy::batch);
    producer.sync();
    ASSERT_EQ(producer.acknowledgements.size(), 3u);
    EXPECT_EQ(producer.producer->durable(), policy != SyncPolicy::none);
    for (std::size_t i = 1; i < 3; ++i) EXPECT_EQ(producer.acknowledgements[i].first, producer.acknowledgements[i - 1].last + 1);
    EXPECT_EQ(producer.acknowledgements.back().progress.records, 3u);
  }
}

TEST_F(ProducerTest, PolicyEndSyncsAtEachRoll) {
  const auto topic = make_topic({{"segment.bytes", "200"}});
  TestProducer producer(store_, topic);
  producer.append("one");
  producer.append("two");
  EXPECT_TRUE(producer.acknowledgements.empty());
  producer.append("three");
  EXPECT_EQ(producer.acknowledgements.size(), 3u);
  EXPECT_TRUE(producer.producer->durable());
}

TEST_F(ProducerTest, FlushMessagesSyncsThatPartitionAfterSoMany) {
  const auto topic = make_topic({{"flush.messages", "3"}}, 2);
  CountingSyncs system;
  os::ScopedSystem scoped(system);
  TestProducer producer(store_, topic, with_sync(SyncPolicy::none));
  const auto append = [&](std::int32_t partition) {
    const auto record = record_of("v");
    producer.producer->append({&record, 1}, {}, {&partition, 1});
    producer.producer->flush();
    return std::exchange(system.syncs, 0) > 0;
  };
  EXPECT_FALSE(append(0));
  EXPECT_FALSE(append(0));
  EXPECT_FALSE(append(1));
  EXPECT_TRUE(append(0));
  EXPECT_FALSE(append(1));
  EXPECT_TRUE(append(1));
}

// org.apache.kafka.storage.internals.log.LogSegment.shouldRoll: a batch that would make the segment larger than segment.bytes.
TEST_F(ProducerTest, RollsWhereTheNextBatchDoesNotFit) {
  const auto topic = make_topic({}, 1, "probe");
  TestProducer(store_, topic).append("v");
  const auto size = checked(topic).segments[0].size;
  for (const int extra : {-1, 0, 1}) {
    const auto rolled = make_topic({{"segment.bytes", std::to_string(3 * size + extra)}}, 1, "t" + std::to_string(extra + 1));
    TestProducer producer(store_, rolled);
    for (int i = 0; i < 7; ++i) producer.append("v");
    const auto expected = extra < 0 ? std::vector<std::int64_t>{0, 2, 4, 6} : std::vector<std::int64_t>{0, 3, 6};
    EXPECT_EQ(bases(rolled), expected) << extra;
  }
}

TEST_F(ProducerTest, BatchLargerThanASegmentGetsOneOfItsOwn) {
  const auto topic = make_topic({{"segment.bytes", "200"}});
  TestProducer producer(store_, topic);
  producer.append("v");
  producer.append(std::string(1000, 'x'));
  producer.append("v");
  EXPECT_EQ(bases(topic), (std::vector<std::int64_t>{0, 1, 2}));
}

// segment.ms counts from the largest timestamp of the first batch to that of the batch to be appended, not by the clock.
TEST_F(ProducerTest, RollsByTheTimeOfRecords) {
  const auto topic = make_topic({{"segment.ms", std::to_string(day)}});
  constexpr std::int64_t start = 1'600'000'000'000;
  TestProducer first(store_, topic);
  first.append("0", start);
  first.append("1", start + day);
  first.append("2", start - 10 * day);
  TestProducer(store_, topic).append("3", start + day + 1);  // rolls, also by another that has read the start
  TestProducer second(store_, topic);
  second.append("4", start + day);
  second.append("5", start + 2 * day + 1);
  second.append("6", start + 2 * day + 2);
  EXPECT_EQ(bases(topic), (std::vector<std::int64_t>{0, 3, 6}));
}

}  // namespace
}  // namespace partlog::test

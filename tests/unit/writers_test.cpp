// Many writers at once through the library, threads and processes, while a reader follows; locally and by the rules for network
// file systems.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include "partlog/error.h"
#include "support/child_process.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

class WritersTest : public LogTest {
 protected:
  // Appends `count` batches of one record to each partition in turn: values "writer:partition:sequence:filling".
  static void write(const Store& store, const Topic& topic, int writer, int count) {
    std::vector<std::unique_ptr<TestProducer>> producers;
    for (int p = 0; p < topic.partitions; ++p)
      producers.push_back(std::make_unique<TestProducer>(store, topic, into_partition(p)));
    std::minstd_rand random(static_cast<unsigned>(writer + 1));
    for (int sequence = 0; sequence < count; ++sequence) {
      for (int p = 0; p < topic.partitions; ++p) {
        const auto filling = std::string(random() % 80, static_cast<char>('a' + writer));
        producers[static_cast<std::size_t>(p)]->append(std::to_string(writer) + ":" + std::to_string(p) + ":" +
                                                       std::to_string(sequence) + ":" + filling);
      }
    }
  }

  static void write_with_threads(const std::string& directory, int first_writer, int threads, int count) {
    const auto store = Store::open(directory);
    const auto topic = store.topic("t");
    std::vector<std::thread> running;
    for (int t = 0; t < threads; ++t) running.emplace_back([&, t] { write(store, topic, first_writer + t, count); });
    for (auto& thread : running) thread.join();
  }

  // Each writer's records, whole and in order.
  class Expected {
   public:
    Expected(int partition, int count) : partition_(partition), count_(count) {}
    void take(const std::string& value) {
      const auto first = value.find(':'), second = value.find(':', first + 1), third = value.find(':', second + 1);
      ASSERT_NE(third, std::string::npos) << value;
      const int writer = std::stoi(value.substr(0, first));
      ASSERT_EQ(std::stoi(value.substr(first + 1)), partition_) << value;
      ASSERT_EQ(std::stoi(value.substr(second + 1)), next_[writer]++) << value;
      ASSERT_EQ(value.find_first_not_of(static_cast<char>('a' + writer), third + 1), std::string::npos) << value;
      ASSERT_LE(next_[writer], count_);
    }

   private:
    int partition_;
    int count_;
    std::map<int, int> next_;
  };

  // Follows one partition until it has seen `total` records.
  void follow(const Store& store, const Topic& topic, int partition, int count, std::size_t total) {
    PartitionReader reader(store, topic, partition);
    PartitionWatch watch({reader.directory()}, std::chrono::milliseconds(20));
    Expected expected(partition, count);
    std::size_t seen = 0;
    while (seen < total && !HasFailure()) {
      const auto records = reader.read();
      for (const auto& record : records) {
        ASSERT_EQ(record.offset.value, static_cast<std::int64_t>(seen));
        ++seen;
        expected.take(std::string(record.value.view()));
      }
      if (records.empty()) watch.wait(std::chrono::seconds(10));
    }
    EXPECT_TRUE(reader.read().empty());
    EXPECT_EQ(reader.position().value, static_cast<std::int64_t>(total));
    EXPECT_EQ(reader.end().value, static_cast<std::int64_t>(total));
  }

  void expect_all_there(const Topic& topic, int count, std::size_t total) {
    for (int p = 0; p < topic.partitions; ++p) {
      Expected expected(p, count);
      const auto records = checked(topic, p).records();
      ASSERT_EQ(records.size(), total);
      for (const auto& record : records) expected.take(*record.value);
    }
  }
};

TEST_F(WritersTest, ThreadsOfTwoProcessesInTwoPartitionsThatRollOften) {
  const auto topic = make_topic({{"segment.bytes", "1200"}, {"index.interval.bytes", "300"}}, 2);
  const int count = scaled(400);
  const auto body = [&](int first_writer) {
    return [this, first_writer, count](Line& line) {
      line.receive();
      write_with_threads(store_.directory(), first_writer, 2, count);
      return 0;
    };
  };
  ChildProcess one(body(0)), two(body(2));
  std::thread readers[] = {std::thread([&] { follow(store_, topic, 0, count, static_cast<std::size_t>(4 * count)); }),
                           std::thread([&] { follow(store_, topic, 1, count, static_cast<std::size_t>(4 * count)); })};
  one.line().send();
  two.line().send();
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  for (auto& reader : readers) reader.join();
  expect_all_there(topic, count, static_cast<std::size_t>(4 * count));
  EXPECT_GT(checked(topic, 0).segments.size(), static_cast<std::size_t>(count) / 4);
}

TEST_F(WritersTest, ThreadsOfOneProcess) {
  const auto topic = make_topic({{"segment.bytes", "900"}, {"index.interval.bytes", "200"}}, 2);
  const int count = scaled(150);
  std::thread reader([&] { follow(store_, topic, 1, count, static_cast<std::size_t>(4 * count)); });
  write_with_threads(store_.directory(), 0, 4, count);
  reader.join();
  expect_all_there(topic, count, static_cast<std::size_t>(4 * count));
}

class NetworkWritersTest : public WritersTest {
 protected:
  NetworkWritersTest() {
    ::setenv("PARTLOG_FILESYSTEM", "network", 1);
    store_ = Store::open(store_.directory());
  }
  ~NetworkWritersTest() override { ::unsetenv("PARTLOG_FILESYSTEM"); }
};

TEST_F(NetworkWritersTest, TwoProcessesAppendAndRollAndAReaderFollows) {
  ASSERT_TRUE(store_.on_network());
  const auto topic = make_topic({{"segment.bytes", "500"}, {"index.interval.bytes", "150"}});
  const int count = scaled(25);
  const auto body = [&](int writer) {
    return [this, writer, count](Line& line) {
      line.receive();
      write_with_threads(store_.directory(), writer, 1, count);
      return 0;
    };
  };
  ChildProcess one(body(0)), two(body(1));
  one.line().send();
  two.line().send();
  follow(store_, topic, 0, count, static_cast<std::size_t>(2 * count));
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  expect_all_there(topic, count, static_cast<std::size_t>(2 * count));
}

// A writer is killed at any moment; the others go on, whatever it left.
TEST_F(WritersTest, KilledWritersLeaveNothingThatStopsTheOthers) {
  const auto topic = make_topic({{"segment.bytes", "1200"}, {"index.interval.bytes", "300"}});
  std::mt19937_64 random(random_seed());
  std::size_t seen = 0;
  for (int round = 0; round < scaled(10); ++round) {
    ChildProcess child([&](Line& line) {
      const auto store = Store::open(store_.directory());
      TestProducer producer(store, store.topic("t"), with_sync(SyncPolicy::none));
      for (;;) {
        producer.append(std::string(200, 'k'));
        line.send();
      }
      return 0;
    });
    for (auto n = 1 + random() % 50; n > 0; --n) child.line().receive();
    child.kill(SIGKILL);
    child.wait();
    TestProducer producer(store_, topic);
    producer.append("survivor");
    const auto all = read_all(store_, topic);
    ASSERT_FALSE(all.error) << all.message;
    ASSERT_GT(all.records.size(), seen + 1);
    ASSERT_EQ(all.values().back(), "survivor");
    seen = all.records.size();
    checked(topic);
  }
}

// What became of a segment that others closed since this writer looked last is nothing to it: it neither cuts nor goes on there.
TEST_F(WritersTest, DamageInASegmentThatOthersClosedIsLeftToReaders) {
  for (const std::size_t damaged : {0u, 2u}) {  // the tail as the writer knows it, and one that it has never seen
    SCOPED_TRACE(damaged);
    const auto topic = make_topic({{"segment.bytes", "300"}}, 1, "t" + std::to_string(damaged));
    TestProducer early(store_, topic);
    early.append("early 0");
    std::int64_t next = 1;
    {
      TestProducer other(store_, topic);
      while (checked(topic).segments.size() < 5) other.append("other " + std::to_string(next++));
    }
    const auto log = checked(topic);
    ASSERT_EQ(log.segments.back().batches.size(), 1u);  // so there is room for one more
    const auto& segment = log.segments[damaged];
    ASSERT_GT(segment.batches.size(), 1u);
    auto bytes = contents_of(segment.path);
    bytes[bytes.size() - 3] ^= 1;
    overwrite(segment.path, bytes);
    leave_broken();

    const auto before = snapshot(partition_directory(topic));
    early.append("early 1");
    EXPECT_EQ(early.notices, std::vector<std::string>{});
    const auto grown = contents_of(log.segments.back().path);  // by now with the new batch
    const auto newest = std::filesystem::path(log.segments.back().path).filename().string();
    EXPECT_EQ(grown.substr(0, before.at(newest).size()), before.at(newest));
    EXPECT_GT(grown.size(), before.at(newest).size());
    for (const auto& [name, contents] : snapshot(partition_directory(topic))) {
      ASSERT_TRUE(before.contains(name)) << name;
      if (name.ends_with(".log") && name != newest) {
        EXPECT_EQ(contents, before.at(name)) << name;
      }
    }
    EXPECT_EQ(PartitionReader(store_, topic, 0).end().value, next + 1);

    const auto seen = read_all(store_, topic);
    EXPECT_EQ(seen.error, ErrorCode::damaged) << seen.message;
    EXPECT_EQ(static_cast<std::int64_t>(seen.records.size()), segment.batches.back().base_offset);
    PartitionReader reader(store_, topic, 0);
    reader.seek({log.segments[damaged + 1].base});
    const auto rest = read_on(reader);
    EXPECT_FALSE(rest.error) << rest.message;
    ASSERT_FALSE(rest.records.empty());
    EXPECT_EQ(rest.records.back().offset, next);
    EXPECT_EQ(rest.values().back(), "early 1");
  }
}

}  // namespace
}  // namespace partlog::test

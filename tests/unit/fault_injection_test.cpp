// Every system call of an operation fails once, each way it may: the operation says so or has done its work, and what comes after
// finds the log as if it had never been tried, or whole.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "os/directory.h"
#include "partlog/error.h"
#include "support/faulty_system.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

constexpr int errors[] = {ENOSPC, EIO, ESTALE, EINTR};

class FaultTest : public LogTest {
 protected:
  // Runs `attempt` with the n-th system call failing, for every n until there is no such call, and `check` after each: it is told
  // whether the attempt ended with an Error. Returns how many calls were made to fail.
  long fail_each_call(const std::function<void()>& prepare, const std::function<void()>& attempt,
                      const std::function<void(bool threw)>& check) {
    long failed = 0;
    for (const int error : errors) {
      for (long n = 1; !HasFailure(); ++n) {
        SCOPED_TRACE("call " + std::to_string(n) + " fails: " + std::generic_category().message(error));
        prepare();
        FailingSystem faulty;
        faulty.fail(n, error);
        bool threw = false;
        try {
          os::ScopedSystem scoped(faulty);
          attempt();
        } catch (const Error& reason) {
          threw = true;
          message_ = reason.what();
        }
        if (!faulty.fired()) {
          EXPECT_FALSE(threw) << message_;
          check(threw);
          break;
        }
        ++failed;
        check(threw);
      }
    }
    return failed;
  }

  std::string sync_failed_mark() const { return partition_directory(topic_) + "/sync-failed"; }

  // The log holds `values_`, and goes on behind them.
  void expect_log_goes_on() {
    if (fs::exists(sync_failed_mark())) {
      TestProducer refused(store_, topic_);
      try {
        refused.append("refused");
        FAIL() << "appended behind a failed sync";
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::refused) << error.what();
      }
      fs::remove(sync_failed_mark());
    }
    ASSERT_EQ(read_all(store_, topic_).values(), values_) << message_;
    append("next " + std::to_string(values_.size()));
    ASSERT_EQ(read_all(store_, topic_).values(), values_) << message_;
    checked(topic_);
  }

  // Each attempt has a topic of its own.
  void make_fresh_topic(const Configs& configs) {
    if (!topic_.name.empty()) store_.delete_topic(topic_);
    topic_ = make_topic(configs);
    values_.clear();
  }

  void append(const std::string& value) {
    TestProducer(store_, topic_).append(value);
    values_.push_back(value);
  }

  // So that the next append does, or does not, begin a new segment of at most 500 bytes.
  void fill_segment(bool to_the_brim) {
    for (;;) {
      const auto log = check_log(partition_directory(topic_));
      const auto& last = log.segments.back();
      const bool full = last.size > 400;
      if (full == to_the_brim && !last.batches.empty()) return;
      append("value " + std::to_string(values_.size()));
    }
  }

  Topic topic_;
  std::vector<std::string> values_;
  std::string message_;
};

class AppendFaultTest : public FaultTest, public ::testing::WithParamInterface<std::pair<const char*, bool>> {};

TEST_P(AppendFaultTest, IsReportedAndLeavesNothingOrSucceeds) {
  const std::string kind = GetParam().first;
  std::unique_ptr<TestProducer> warm;
  const auto prepare = [&] {
    warm.reset();
    make_fresh_topic({{"segment.bytes", "500"}, {"index.interval.bytes", "150"}});
    fill_segment(GetParam().second);
    if (kind == "known tail") {
      warm = std::make_unique<TestProducer>(store_, topic_, with_sync(SyncPolicy::none));
      warm->append("warm");
      values_.emplace_back("warm");
    }
    if (kind == "torn tail" || kind == "restart") {
      const auto path = check_log(partition_directory(topic_)).segments.back().path;
      overwrite(path, contents_of(path) + std::string(90, 'x'));
    }
    if (kind == "restart") restart_host(partition_directory(topic_));
  };
  const auto attempt = [&] {
    if (!warm) {
      TestProducer(store_, topic_, with_sync(SyncPolicy::none)).append("tried");
    } else {
      warm->append("tried");
    }
  };
  const auto failed = fail_each_call(prepare, attempt, [&](bool threw) {
    if (!threw) values_.emplace_back("tried");
    expect_log_goes_on();
  });
  EXPECT_GT(failed, 15);
}

INSTANTIATE_TEST_SUITE_P(Kinds, AppendFaultTest,
                         ::testing::Values(std::pair("first open", false), std::pair("first open", true),
                                           std::pair("known tail", false), std::pair("known tail", true),
                                           std::pair("torn tail", false), std::pair("restart", false)),
                         [](const auto& parameter) {
                           std::string name = parameter.param.first;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name + (parameter.param.second ? "_with_roll" : "");
                         });

TEST_F(FaultTest, OfSync) {
  std::unique_ptr<TestProducer> producer;
  fail_each_call(
      [&] {
        producer.reset();
        make_fresh_topic({{"segment.bytes", "500"}});
        fill_segment(true);
        producer = std::make_unique<TestProducer>(store_, topic_);
        for (const std::string value : {"one", "two"}) {  // in two segments
          producer->append(value);
          values_.push_back(value);
        }
      },
      [&] { producer->sync(); },
      [&](bool threw) {
        const auto first = static_cast<std::int64_t>(values_.size()) - 2;
        const bool acknowledged =
            !producer->acknowledgements.empty() && producer->acknowledgements.back().first.value == first + 1;
        EXPECT_NE(acknowledged, threw);
        if (threw) {
          if (fs::exists(sync_failed_mark())) {
            EXPECT_NE(message_.find(std::to_string(first + 1)), std::string::npos) << message_;
          }
          EXPECT_FALSE(producer->producer->durable());
        }
        expect_log_goes_on();
      });
}

TEST_F(FaultTest, OfReadingHidesAndInventsNothing) {
  topic_ = make_topic({{"segment.bytes", "300"}, {"index.interval.bytes", "150"}});
  for (int i = 0; i < 12; ++i) append("value " + std::to_string(i));
  std::unique_ptr<PartitionReader> reader;
  std::vector<std::string> seen;
  fail_each_call([&] { reader.reset(); },
                 [&] {
                   seen.clear();
                   reader = std::make_unique<PartitionReader>(store_, topic_, 0);
                   const auto result = read_on(*reader);
                   seen = result.values();
                   if (result.error) throw Error(*result.error, result.message);
                 },
                 [&](bool threw) {
                   if (!threw) {
                     ASSERT_EQ(seen, values_);
                     return;
                   }
                   const auto rest = reader ? read_on(*reader) : read_all(store_, topic_);
                   ASSERT_FALSE(rest.error) << rest.message;
                   for (const auto& value : rest.values()) seen.push_back(value);
                   ASSERT_EQ(seen, values_) << message_;
                 });
}

TEST_F(FaultTest, OfMakingATopicLeavesItWholeOrNotThere) {
  int number = 0;
  std::string name;
  const auto failed = fail_each_call([&] { name = "t" + std::to_string(number++); }, [&] { store_.create_topic(name, 2, {}); },
                                     [&](bool threw) {
                                       ASSERT_TRUE(threw || store_.find_topic(name));
                                       if (!store_.find_topic(name)) store_.create_topic(name, 2, {});
                                       const auto topic = store_.topic(name);
                                       for (int p = 0; p < 2; ++p) {
                                         TestProducer(store_, topic, into_partition(p)).append("one");
                                         ASSERT_EQ(read_all(store_, topic, p).values(), std::vector<std::string>{"one"});
                                       }
                                     });
  EXPECT_GT(failed, 100);
  EXPECT_TRUE(fs::is_empty(store_.directory() + "/staging"));
}

TEST_F(FaultTest, OfDeletingATopicLeavesItWholeOrNotThere) {
  Topic topic;
  int number = 0;
  fail_each_call([&] { topic = make_topic({}, 2, "t" + std::to_string(number++)); }, [&] { store_.delete_topic(topic); },
                 [&](bool threw) {
                   const auto left = store_.find_topic(topic.name);
                   ASSERT_TRUE(threw || !left);
                   if (!left) return;
                   for (int p = 0; p < 2; ++p) TestProducer(store_, *left, into_partition(p)).append("one");
                   store_.delete_topic(*left);
                 });
}

TEST_F(FaultTest, ShortWriteOnAFullDiskIsTakenBack) {
  topic_ = make_topic();
  TestProducer producer(store_, topic_);
  producer.append("first");
  const auto before = contents_of(segment_path(topic_, 0));
  {
    FailingSystem faulty(FailingSystem::Count::writes);
    faulty.shorten_write(1, ENOSPC);
    os::ScopedSystem scoped(faulty);
    try {
      producer.append("second");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.system_error(), ENOSPC) << error.what();
    }
    EXPECT_TRUE(faulty.fired());
  }
  EXPECT_EQ(contents_of(segment_path(topic_, 0)), before);
  producer.producer->flush();  // what failed is still held
  EXPECT_EQ(read_all(store_, topic_).values(), (std::vector<std::string>{"first", "second"}));
}

// Its bytes are the caller's, who may let go of them once append() has returned.
TEST_F(FaultTest, LargeRecordThatCannotBeStoredIsNotTaken) {
  topic_ = make_topic({{"max.message.bytes", "5000000"}});
  TestProducer producer(store_, topic_);
  producer.append("first");
  const auto before = contents_of(segment_path(topic_, 0));
  {
    const std::string large(3 << 20, 'l');
    Record record;
    record.value = Bytes(large);
    for (int piece = 1; piece <= 3; ++piece) {
      FailingSystem faulty(FailingSystem::Count::writes);
      faulty.shorten_write(piece, ENOSPC);
      os::ScopedSystem scoped(faulty);
      EXPECT_THROW(producer.producer->append({&record, 1}), Error);
      EXPECT_TRUE(faulty.fired());
      EXPECT_EQ(producer.producer->taken(), 1u);
      EXPECT_EQ(producer.producer->progress().records, 1u);
    }
  }
  EXPECT_EQ(contents_of(segment_path(topic_, 0)), before);
  producer.append("second");
  EXPECT_EQ(read_all(store_, topic_).values(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(FaultTest, ShortWriteThatCannotBeTakenBackIsATornTail) {
  topic_ = make_topic();
  {
    TestProducer producer(store_, topic_);
    producer.append("first");
    FailingSystem full(FailingSystem::Count::writes);
    full.shorten_write(1, ENOSPC);
    FailingSystem faulty(full, FailingSystem::Count::changes);
    faulty.fail(3, EIO);  // after the two halves of the write
    os::ScopedSystem scoped(faulty);
    try {
      producer.append("second");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.system_error(), ENOSPC) << error.what();
    }
    EXPECT_TRUE(faulty.fired());
  }
  EXPECT_EQ(read_all(store_, topic_).values(), std::vector<std::string>{"first"});
  TestProducer producer(store_, topic_);
  producer.append("third");
  EXPECT_EQ(producer.notices.size(), 1u);
  EXPECT_EQ(read_all(store_, topic_).values(), (std::vector<std::string>{"first", "third"}));
}

// Fails the next syncs of data, as the kernel does: once, and never again.
class SyncFailingOnce : public os::System {
 public:
  int fdatasync(int fd) override {
    if (std::exchange(failed, true)) return System::fdatasync(fd);
    errno = EIO;
    return -1;
  }
  bool failed = false;
};

TEST_F(FaultTest, NoSyncIsTrustedAfterOneThatFailed) {
  topic_ = make_topic({}, 2);
  TestProducer bystander(store_, topic_, into_partition(0));
  bystander.append("zero");
  TestProducer producer(store_, topic_, into_partition(0));
  producer.append_batch({"one", "two"});
  SyncFailingOnce faulty;
  os::ScopedSystem scoped(faulty);
  for (int again = 0; again < 2; ++again) {
    try {
      producer.sync();
      ADD_FAILURE() << "synced";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_NE(std::string(error.what()).find("offsets 1 to 2 are in doubt"), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(bystander.sync(), Error);
  EXPECT_TRUE(producer.acknowledgements.empty());
  EXPECT_TRUE(bystander.acknowledgements.empty());
  EXPECT_THROW(producer.append("three"), Error);
  const auto mark = partition_directory(topic_, 0) + "/sync-failed";
  EXPECT_NE(contents_of(mark).find("offsets 1 to 2"), std::string::npos) << contents_of(mark);
  TestProducer fresh(store_, topic_, into_partition(0));
  try {
    fresh.append("four");
    ADD_FAILURE() << "appended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::refused);
    EXPECT_NE(std::string(error.what()).find(mark), std::string::npos) << error.what();
  }
  EXPECT_EQ(read_all(store_, topic_).values(), (std::vector<std::string>{"zero", "one", "two"}));
}

// Not even where the mark for the others could not be made.
TEST_F(FaultTest, FailedSyncIsRememberedWithoutItsMark) {
  class Faulty : public SyncFailingOnce {
   public:
    int rename(const char* from, const char* to) override {
      if (!std::string_view(to).ends_with("sync-failed")) return System::rename(from, to);
      errno = EIO;
      return -1;
    }
  };
  topic_ = make_topic();
  TestProducer producer(store_, topic_);
  producer.append("one");
  Faulty faulty;
  os::ScopedSystem scoped(faulty);
  EXPECT_THROW(producer.sync(), Error);
  EXPECT_FALSE(fs::exists(sync_failed_mark()));
  EXPECT_THROW(producer.sync(), Error);
  EXPECT_TRUE(producer.acknowledgements.empty());
}

// The batch in doubt waits for its acknowledgement: one of another partition must not take it along.
TEST_F(FaultTest, SyncOfAnotherPartitionDoesNotAcknowledgeWhatIsInDoubt) {
  topic_ = make_topic({}, 2);
  TestProducer producer(store_, topic_, with_sync(SyncPolicy::batch));
  std::string keys[2];
  for (int i = 0; keys[0].empty() || keys[1].empty(); ++i) {
    const auto key = "k" + std::to_string(i);
    TestProducer probe(store_, topic_);
    Record record;
    record.key = Bytes(key);
    probe.producer->append({&record, 1});
    probe.producer->sync();
    keys[probe.acknowledgements[0].partition] = key;
  }
  const auto append = [&](int partition) {
    Record record;
    record.key = Bytes(keys[partition]);
    producer.producer->append({&record, 1});
    producer.producer->flush();
  };
  SyncFailingOnce faulty;
  os::ScopedSystem scoped(faulty);
  EXPECT_THROW(append(0), Error);
  append(1);
  EXPECT_TRUE(producer.acknowledgements.empty());
}

}  // namespace
}  // namespace partlog::test

// Power failures while several producers write: a system that knows what was synced builds what a failure may leave, which is
// then opened as after a restart of the host.
#include <fcntl.h>

#include <filesystem>
#include <functional>

#include "partlog/error.h"
#include "partlog/group.h"
#include "partlog/group_member.h"
#include "partlog/partition_check.h"
#include "partlog/partition_repair.h"
#include "support/faulty_system.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

// Calls back after every call that changes what is stored, and around every sync.
class CuttingSystem : public RecordingSystem {
 public:
  CuttingSystem(const std::string& root, std::function<void()> at_every_point)
      : RecordingSystem(root), at_every_point_(std::move(at_every_point)) {
    set_hook([this](Moment) { at_every_point_(); });
  }
  int open(const char* path, int flags, mode_t mode) override {
    const int fd = RecordingSystem::open(path, flags, mode);
    // A lock file is made while the registry of locks is locked, which the point would want too; the next call brings another.
    if ((flags & O_CREAT) != 0 && !std::string_view(path).ends_with(".lock")) at_every_point_();
    return fd;
  }
  ssize_t pwrite(int fd, const void* data, size_t size, off_t position) override {
    return then(RecordingSystem::pwrite(fd, data, size, position));
  }
  int ftruncate(int fd, off_t size) override { return then(RecordingSystem::ftruncate(fd, size)); }
  int rename(const char* from, const char* to) override { return then(RecordingSystem::rename(from, to)); }
  int unlink(const char* path) override { return then(RecordingSystem::unlink(path)); }
  int mkdir(const char* path, mode_t mode) override { return then(RecordingSystem::mkdir(path, mode)); }
  int rmdir(const char* path) override { return then(RecordingSystem::rmdir(path)); }

 private:
  template <class Result>
  Result then(Result result) {
    const int error = errno;
    at_every_point_();
    errno = error;
    return result;
  }
  std::function<void()> at_every_point_;
};

std::vector<std::string> first(const std::vector<std::string>& values, std::size_t count) {
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count)};
}

class PowerCutLogTest : public LogTest {
 protected:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }

  // A store as a power failure now leaves it, after the restart.
  std::string cut(const RecordingSystem& system) {
    const auto root = directory_.path("cut" + std::to_string(cuts_++));
    const auto seed = random_();
    system.power_cut(root, seed);
    for (const auto& topic : fs::directory_iterator(root + "/topics")) {
      for (const auto& partition : fs::directory_iterator(topic.path())) {
        if (partition.is_directory()) restart_host(partition.path());
      }
    }
    return root;
  }

  std::mt19937_64 random_{random_seed()};
  int cuts_ = 0;
};

class AppendingThroughPowerCuts : public PowerCutLogTest {
 protected:
  static constexpr int deepest = 2;

  struct History {
    std::vector<std::string> log;  // in the order of appending; the last batch may be on its way only
    std::size_t durable = 0;       // how many of them somebody was told are stored
  };

  // Goes on appending to a store with these records, and has the power cut at every point, or every now and then, on the way.
  void append_with_cuts(const std::string& root, History history, int depth) {
    const auto store = Store::open(root);
    const auto topic = store.topic("t");
    bool busy = false;
    CuttingSystem system(root, [&] {
      if (busy || HasFailure() || below(static_cast<std::uint64_t>(depth == 0 ? 2 : 30)) != 0) return;
      busy = true;
      survive(*current_, history, depth);
      busy = false;
    });
    const auto* const outer = std::exchange(current_, &system);
    {
      os::ScopedSystem scoped(system);
      std::vector<std::unique_ptr<Producer>> producers(4);
      const int steps = depth == 0 ? scaled(35) : 15;
      for (int step = 0; step < steps && !HasFailure(); ++step) {
        const auto which = below(producers.size());
        if (!producers[which] || below(20) == 0) producers[which] = open(store, topic, policy_of(which), history);
        append_some(*producers[which], history, depth);
        if (below(6) == 0) {
          producers[which]->sync();
          if (policy_of(which) != SyncPolicy::none) history.durable = history.log.size();
        }
      }
    }
    current_ = outer;
  }

  static Topic topic_in(const std::string& root) { return Store::open(root).topic("t"); }

  static SyncPolicy policy_of(std::size_t producer) {
    return producer == 0 ? SyncPolicy::batch : producer == 1 ? SyncPolicy::none : SyncPolicy::end;
  }

  static std::unique_ptr<Producer> open(const Store& store, const Topic& topic, SyncPolicy policy, History& history) {
    auto options = with_sync(policy);
    options.acknowledged = [&history, policy](const Acknowledgement& done) {
      if (policy != SyncPolicy::none) history.durable = std::max(history.durable, static_cast<std::size_t>(done.last.value + 1));
    };
    return std::make_unique<Producer>(store, topic, options);
  }

  void append_some(Producer& producer, History& history, int depth) {
    std::vector<std::string> values;
    for (auto count = 1 + below(3); count > 0; --count) {
      values.push_back(std::to_string(depth) + ":" + std::to_string(numbered_++) + ":" + std::string(below(60), 'x'));
    }
    history.log.insert(history.log.end(), values.begin(), values.end());
    std::vector<Record> records(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      records[i].value = Bytes(values[i]);
      records[i].timestamp = {static_cast<std::int64_t>(1'700'000'000'000 + below(100000))};
    }
    producer.append(records);
    producer.flush();
  }

  static std::string damage_in(const std::string& directory) {
    std::string damage;
    CheckOptions options;
    options.alone = true;
    check_partition(directory, options, [&](const CheckFinding& finding) {
      if (finding.kind == CheckFinding::Kind::damage) damage += finding.file + ": " + finding.reason + "\n";
    });
    return damage;
  }

  // A repair instead of the next writer: what was read before is there, and more at most.
  void expect_repairable(const std::string& root, const History& history, std::size_t count) {
    const auto copy = root + "-repaired";
    fs::copy(root, copy, fs::copy_options::recursive);
    const auto directory = copy + "/topics/t/0";
    repair_partition(directory, {}, [](const CheckFinding&) {});
    ASSERT_EQ(damage_in(directory), "");
    const auto store = Store::open(copy);
    const auto seen = read_all(store, store.topic("t"));
    ASSERT_FALSE(seen.error) << seen.message;
    ASSERT_GE(seen.records.size(), count);
    for (const auto& record : seen.records) {
      ASSERT_EQ(record.value, history.log.at(static_cast<std::size_t>(record.offset)));
    }
    TestProducer(store, store.topic("t")).append("behind the repair");
    ASSERT_EQ(read_all(store, store.topic("t")).values().size(), seen.records.size() + 1);
    ASSERT_EQ(damage_in(directory), "");
    fs::remove_all(copy);
  }

  // The power fails now: nothing that anybody was told is stored is missing, nothing is there that was not written, and the
  // log can be gone on with.
  void survive(const RecordingSystem& system, const History& history, int depth) {
    os::System kernel;
    os::ScopedSystem scoped(kernel);
    const auto root = cut(system);
    SCOPED_TRACE("cut " + root + ", depth " + std::to_string(depth));
    const auto store = Store::open(root);
    const auto topic = store.topic("t");
    const auto directory = root + "/topics/t/0";
    const auto before = snapshot(directory);

    PartitionReader reader(store, topic, 0);
    const auto seen = read_on(reader);
    ASSERT_FALSE(seen.error) << seen.message;
    const auto count = seen.records.size();
    ASSERT_GE(count, history.durable);
    ASSERT_LE(count, history.log.size());
    ASSERT_EQ(seen.values(), first(history.log, count));
    ASSERT_EQ(reader.end().value, std::ssize(seen.records));
    ASSERT_EQ(damage_in(directory), "");
    ASSERT_EQ(snapshot(directory), before) << "a reader changed something";

    if (below(12) == 0) expect_repairable(root, history, count);

    History next{first(history.log, count), 0};
    next.log.push_back("after " + std::to_string(cuts_));
    TestProducer producer(store, topic, with_sync(SyncPolicy::batch));
    producer.append(next.log.back());
    ASSERT_EQ(producer.acknowledgements.size(), 1u);
    ASSERT_EQ(producer.acknowledgements[0].first.value, std::ssize(next.log) - 1);
    next.durable = next.log.size();
    const auto behind = read_on(reader);
    ASSERT_FALSE(behind.error) << behind.message;
    ASSERT_EQ(behind.values(), std::vector<std::string>{next.log.back()});
    ASSERT_EQ(read_all(store, topic).values(), next.log);
    const auto log = check_log(directory, {.index_interval_bytes = topic.config.index_interval_bytes()});
    for (const auto& fault : log.faults) FAIL() << fault;
    if (depth < deepest && below(4) == 0) append_with_cuts(root, next, depth + 1);
    if (!HasFailure()) fs::remove_all(root);
  }

  const RecordingSystem* current_ = nullptr;
  int numbered_ = 0;
};

TEST_F(AppendingThroughPowerCuts, NothingAcknowledgedIsMissing) {
  make_topic({{"segment.bytes", "600"}, {"index.interval.bytes", "150"}});
  append_with_cuts(store_.directory(), {}, 0);
  EXPECT_GT(cuts_, scaled(100));
  std::cout << cuts_ << " power cuts\n";
}

// The recovery after a cut is itself interrupted, again and again.
TEST_F(AppendingThroughPowerCuts, RecoveryInterruptedByTheNextCut) {
  make_topic({{"segment.bytes", "300"}, {"index.interval.bytes", "100"}});
  for (int round = 0; round < scaled(8) && !HasFailure(); ++round) {
    const auto base = directory_.path("base" + std::to_string(round));
    fs::copy(store_.directory(), base, fs::copy_options::recursive);
    struct Left {
      std::string root;
      History history;
    };
    std::vector<Left> left;
    {
      History history;
      CuttingSystem system(base, [] {});
      os::ScopedSystem scoped(system);
      auto producer = open(Store::open(base), topic_in(base), SyncPolicy::none, history);
      for (int i = 0; i < 12; ++i) append_some(*producer, history, 0);
      left.push_back({cut(system), history});
    }
    // Each cut is taken while the one before is recovered from.
    for (std::size_t n = 0; n < 4 && n < left.size() && !HasFailure(); ++n) {
      const auto root = left[n].root;
      auto history = left[n].history;
      bool busy = false;
      const RecordingSystem* recorder = nullptr;
      CuttingSystem system(root, [&] {
        if (busy || below(8) != 0 || recorder == nullptr) return;
        busy = true;
        survive(*recorder, history, deepest);
        if (left.size() < n + 2) left.push_back({cut(*recorder), history});
        busy = false;
      });
      recorder = &system;
      os::ScopedSystem scoped(system);
      history.log.resize(read_all(Store::open(root), topic_in(root)).records.size());
      auto producer = open(Store::open(root), topic_in(root), SyncPolicy::end, history);
      append_some(*producer, history, 1);
    }
  }
}

class TopicThroughPowerCuts : public PowerCutLogTest {
 protected:
  // What stands there of the topic is whole: every partition can be read, appended to and read again.
  void expect_whole(const Store& store, const Topic& topic, const std::vector<std::string>& values) {
    ASSERT_EQ(topic.partitions, 3);
    ASSERT_EQ(topic.config.segment_bytes(), 5000);
    for (int p = 0; p < topic.partitions; ++p) {
      const auto files = snapshot(topic.directory + "/" + std::to_string(p));
      for (const auto* name : {"00000000000000000000.log", "append.lock", "leader-epoch-checkpoint", "log-start-offset",
                               "partition.metadata", "recovery-point"}) {
        ASSERT_TRUE(files.contains(name)) << name;
      }
      const auto seen = read_all(store, topic, p);
      ASSERT_FALSE(seen.error) << seen.message;
      ASSERT_EQ(seen.values(), values);
      TestProducer(store, topic, into_partition(p)).append("more");
      auto more = values;
      more.emplace_back("more");
      ASSERT_EQ(read_all(store, topic, p).values(), more);
      const auto log = check_log(topic.directory + "/" + std::to_string(p));
      for (const auto& fault : log.faults) FAIL() << fault;
    }
  }

  // Cuts at every point of `action`; returns in how many the topic was there.
  int count_present(const std::function<void()>& action, const std::vector<std::string>& values, int cuts_at_each) {
    int present = 0;
    bool busy = false;
    const RecordingSystem* recorder = nullptr;
    CuttingSystem system(store_.directory(), [&] {
      if (busy || recorder == nullptr || HasFailure()) return;
      busy = true;
      for (int again = 0; again < scaled(cuts_at_each); ++again) present += is_whole_after_cut(*recorder, values) ? 1 : 0;
      busy = false;
    });
    recorder = &system;
    {
      os::ScopedSystem scoped(system);
      action();
    }
    after_ = 0;
    for (int again = 0; again < 20 && !HasFailure(); ++again) after_ += is_whole_after_cut(system, values) ? 1 : 0;
    return present;
  }

  bool is_whole_after_cut(const RecordingSystem& system, const std::vector<std::string>& values) {
    os::System kernel;
    os::ScopedSystem scoped(kernel);
    const auto root = cut(system);
    SCOPED_TRACE("cut " + root);
    const auto store = Store::open(root);
    const auto topic = store.find_topic("made");
    if (topic) {
      expect_whole(store, *topic, values);
    } else {
      EXPECT_EQ(store.topic_names(), std::vector<std::string>{});
      TopicConfig config;
      config.set("segment.bytes", "5000");
      store.create_topic("made", 3, config);
      expect_whole(store, store.topic("made"), {});
    }
    if (!HasFailure()) fs::remove_all(root);
    return topic.has_value();
  }

  int after_ = 0;  // of 20 cuts when all is done
};

TEST_F(TopicThroughPowerCuts, IsMadeWholeOrNotAtAll) {
  const auto present = count_present([&] { make_topic({{"segment.bytes", "5000"}}, 3, "made"); }, {}, 2);
  EXPECT_GT(present, 0);
  EXPECT_EQ(after_, 20);
  EXPECT_GT(cuts_, 60);
}

TEST_F(TopicThroughPowerCuts, IsDeletedWholeOrNotAtAll) {
  const auto topic = make_topic({{"segment.bytes", "5000"}}, 3, "made");
  for (int p = 0; p < 3; ++p) {
    TestProducer(store_, topic, into_partition(p)).append("one");
  }
  const auto present = count_present([&] { store_.delete_topic(topic); }, {"one"}, 8);
  EXPECT_GT(present, 0);
  EXPECT_EQ(after_, 0);
}

class PositionThroughPowerCuts : public PowerCutLogTest {
 protected:
  PositionThroughPowerCuts() {
    TestProducer producer(store_, topic_);
    for (int i = 0; i < 9; ++i) producer.append("value");
  }

  // A member makes the group and commits; it does not wait for the disk.
  void consume_to(std::int64_t next) const {
    GroupMember member(store_, Group::open_or_create(store_, "g"), {"t"}, {});
    ASSERT_EQ(member.poll().assigned.size(), 1u);
    member.commit({"t", 0}, Offset{next});
  }

  // What `action` promised survives every cut after it.
  void expect_durable(const std::function<void(const Group&)>& action, std::int64_t position) {
    RecordingSystem system(store_.directory());
    {
      os::ScopedSystem scoped(system);
      consume_to(5);
      action(Group::open(store_, "g"));
    }
    for (int again = 0; again < scaled(40) && !HasFailure(); ++again) {
      const auto root = cut(system);
      const auto committed = Group::open(Store::open(root), "g").committed("t", 0);
      ASSERT_TRUE(committed);
      EXPECT_EQ(committed->offset, Offset{position});
      fs::remove_all(root);
    }
  }

  Topic topic_ = make_topic();
};

TEST_F(PositionThroughPowerCuts, OfAScriptSurvivesInAGroupThatAMemberMade) {
  expect_durable([&](const Group& group) { group.commit(store_, topic_, 0, Offset{7}); }, 7);
}

TEST_F(PositionThroughPowerCuts, OfAScriptSurvivesWhereAMemberHadCommittedTheSame) {
  expect_durable([&](const Group& group) { group.commit(store_, topic_, 0, Offset{5}); }, 5);
}

TEST_F(PositionThroughPowerCuts, OfAResetSurvives) {
  expect_durable([&](const Group& group) { GroupChange(group).reset(topic_, 0, Offset{2}); }, 2);
}

TEST_F(PositionThroughPowerCuts, OfAMemberThatAskedForItSurvives) {
  expect_durable(
      [&](const Group& group) {
        GroupMember member(store_, group, {"t"}, {});
        member.poll();
        member.commit({"t", 0}, Offset{8}, no_epoch, true);
      },
      8);
}

TEST_F(PositionThroughPowerCuts, OfAScriptSurvivesMembersThatCommitBehindIt) {
  expect_durable(
      [&](const Group& group) {
        group.commit(store_, topic_, 0, Offset{6});
        consume_to(7);
        group.commit(store_, topic_, 0, Offset{8});
      },
      8);
}

}  // namespace
}  // namespace partlog::test

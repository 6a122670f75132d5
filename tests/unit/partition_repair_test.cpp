#include "partlog/partition_repair.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>

#include "os/system.h"
#include "partlog/partition_check.h"
#include "support/faulty_system.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;

void ignore(const CheckFinding&) {}

// Four segments, the second and the third with each other's names, a batch of the first one damaged, and the last batch of all.
class PartitionRepairTest : public LogTest {
 protected:
  PartitionRepairTest() {
    leave_broken();
    topic_ = make_topic({{"segment.bytes", "400"}, {"index.interval.bytes", "100"}});
    TestProducer producer(store_, topic_);
    for (int n = 0; n < 20; ++n) producer.append("value " + std::to_string(n));
    producer.sync();
    part_ = partition_directory(topic_);
    values_ = read_all(store_, topic_).values();
    const auto log = check_log(part_);
    if (log.segments.size() < 4) throw std::runtime_error("too few segments");
    const auto& segments = log.segments;
    spoil(segments[0].path, segments[0].batches[1].position + 65);
    spoil(segments.back().path, segments.back().batches.back().position + 65);
    fs::rename(segments[1].path, part_ + "/x");
    fs::rename(segments[2].path, segments[1].path);
    fs::rename(part_ + "/x", segments[2].path);
    lost_ = {1, 19};
    fs::copy(part_, directory_.path() + "/damaged", fs::copy_options::recursive);
  }

  static void spoil(const std::string& path, std::int64_t position) {
    auto bytes = contents_of(path);
    bytes[static_cast<std::size_t>(position)] ^= 1;
    overwrite(path, bytes);
  }

  void damage_again() {
    fs::remove_all(part_);
    fs::copy(directory_.path() + "/damaged", part_, fs::copy_options::recursive);
  }

  // Lets the repair die at each of its calls in turn, and once at none; `after` sees what is left. Returns how many there are.
  long die_at_every_call(const std::function<void(const RecordingSystem&)>& after) {
    for (long n = 1;; ++n) {
      damage_again();
      RecordingSystem recorder(store_.directory());
      FailingSystem faulty(recorder, FailingSystem::Count::changes);
      faulty.fail(n, EIO, true);
      try {
        const os::ScopedSystem scoped(faulty);
        repair_partition(part_, {}, ignore);
      } catch (const Error&) {
      }
      SCOPED_TRACE("call " + std::to_string(n));
      after(recorder);
      if (!faulty.fired() || HasFailure()) return n;
    }
  }

  void expect_repaired() { expect_repaired(store_.directory()); }
  void expect_repaired(const std::string& root) {
    const auto part = root + part_.substr(store_.directory().size());
    EXPECT_EQ(check_partition(part, {}, ignore).verdict, Verdict::clean);
    std::vector<std::string> left;
    for (std::size_t n = 0; n < values_.size(); ++n) {
      if (!lost_.contains(n)) left.push_back(values_[n]);
    }
    const auto store = Store::open(root);
    EXPECT_EQ(read_all(store, store.topic(topic_.name)).values(), left);
    EXPECT_FALSE(fs::exists(part + "/repair"));
    const auto listed = contents_of(part + "/lost-offsets");
    EXPECT_TRUE(listed.starts_with("1 1 ")) << listed;
    EXPECT_NE(listed.find("\n19 19 "), std::string::npos) << listed;
  }

  Topic topic_;
  std::string part_;
  std::vector<std::string> values_;
  std::set<std::size_t> lost_;
};

TEST_F(PartitionRepairTest, SavesWhatIsWholeAndListsTheRest) {
  const auto result = repair_partition(part_, {}, ignore);
  EXPECT_EQ(result.before, Verdict::damaged);
  EXPECT_EQ(result.lost, (std::vector<std::pair<Offset, Offset>>{{{1}, {1}}, {{19}, {19}}}));
  EXPECT_TRUE(result.left.empty());
  expect_repaired();
  EXPECT_EQ(repair_partition(part_, {}, ignore).before, Verdict::clean);
}

// At whatever call it dies, nothing more is lost, and the next repair gets to the same end.
TEST_F(PartitionRepairTest, GoesOnAfterACrashAnywhere) {
  const auto calls = die_at_every_call([&](const RecordingSystem&) {
    repair_partition(part_, {}, ignore);
    expect_repaired();
  });
  EXPECT_GT(calls, 40);
}

TEST_F(PartitionRepairTest, KeepsWhatAWriterAppendedAfterACrash) {
  long appended = 0;
  die_at_every_call([&](const RecordingSystem&) {
    std::optional<std::int64_t> offset;
    try {
      TestProducer writer(store_, topic_);
      writer.append("between");
      writer.sync();
      offset = writer.acknowledgements.back().first.value;
      ++appended;
    } catch (const Error&) {  // the damage is there still
    }
    repair_partition(part_, {}, ignore);
    EXPECT_EQ(check_partition(part_, {}, ignore).verdict, Verdict::clean);
    const auto values = read_all(store_, topic_).values();
    EXPECT_EQ(values.size(), 18u + (offset ? 1 : 0));
    if (offset) {
      EXPECT_EQ(values.back(), "between");
    }
  });
  EXPECT_GT(appended, 0);
}

// The same when the power fails there, whatever is left then of what was not synced.
TEST_F(PartitionRepairTest, GoesOnAfterAPowerCutAnywhere) {
  std::mt19937_64 random(random_seed());
  const auto left = directory_.path("left");
  const auto part = left + part_.substr(store_.directory().size());
  die_at_every_call([&](const RecordingSystem& recorder) {
    for (int again = 0; again < scaled(4) && !HasFailure(); ++again) {
      recorder.power_cut(left, random());
      restart_host(part);
      repair_partition(part, {}, ignore);
      expect_repaired(left);
      if (!HasFailure()) fs::remove_all(left);
    }
  });
}

TEST_F(PartitionRepairTest, ADryRunChangesNothing) {
  const auto before = snapshot(part_);
  RepairOptions options;
  options.dry_run = true;
  EXPECT_EQ(repair_partition(part_, options, ignore).lost.size(), 2u);
  EXPECT_EQ(snapshot(part_), before);
}

TEST_F(PartitionRepairTest, ReindexingIsSafeFromCrashesToo) {
  repair_partition(part_, {}, ignore);
  for (long n = 1;; ++n) {
    for (const auto& entry : fs::directory_iterator(part_)) {
      if (entry.path().extension() == ".index" && entry.file_size() > 0) spoil(entry.path(), 3);
    }
    FailingSystem faulty(FailingSystem::Count::changes);
    faulty.fail(n, EIO, true);
    try {
      const os::ScopedSystem scoped(faulty);
      rebuild_indexes(part_, {});
    } catch (const Error&) {
    }
    EXPECT_EQ(read_all(store_, topic_).records.size(), 18u);
    rebuild_indexes(part_, {});
    EXPECT_EQ(check_partition(part_, {}, ignore).verdict, Verdict::clean);
    if (!faulty.fired() || HasFailure()) break;
  }
}

}  // namespace
}  // namespace partlog::test

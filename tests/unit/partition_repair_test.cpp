#include "partlog/partition_repair.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <stdexcept>

#include "format/file_names.h"
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
  // `told` is what the repair that died told before.
  long die_at_every_call(const std::function<void(const RecordingSystem&)>& after, TakeRepair tell = {}) {
    if (!tell) tell = [&](const RepairResult& result) { expect_told(result); };
    for (long n = 1;; ++n) {
      damage_again();
      RecordingSystem recorder(store_.directory());
      FailingSystem faulty(recorder, FailingSystem::Count::changes);
      faulty.fail(n, EIO, true);
      try {
        const os::ScopedSystem scoped(faulty);
        told_ = false;
        repair_partition(part_, {}, ignore, tell);
      } catch (const Error&) {
      }
      SCOPED_TRACE("call " + std::to_string(n));
      after(recorder);
      if (!faulty.fired() || HasFailure()) return n;
    }
  }

  // All of it, also where another repair did the most of it.
  void expect_told(const RepairResult& result) {
    told_ = true;
    EXPECT_EQ(result.before, Verdict::damaged);
    EXPECT_EQ(result.lost, (std::vector<std::pair<Offset, Offset>>{{{1}, {1}}, {{19}, {19}}}));
    EXPECT_EQ(result.end, Offset{20});
    EXPECT_EQ(result.list, part_ + "/lost-offsets");
    EXPECT_TRUE(result.kept_in.starts_with(part_ + "/before-repair.")) << result.kept_in;
    for (const auto& name : result.replaced) {
      const auto old = directory_.path() + "/damaged/" + name;
      if (fs::exists(old)) {
        EXPECT_EQ(contents_of(result.kept_in + "/" + name), contents_of(old)) << name;
      }
    }
    EXPECT_EQ(result.replaced.size(), 4u);
    EXPECT_TRUE(result.left.empty());
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
  bool told_ = false;
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

// What was lost and where the old files are is told by the repair that finishes it, unless the one that died has told it.
TEST_F(PartitionRepairTest, TellsWhatAnInterruptedOneDid) {
  int finished = 0;
  const auto calls = die_at_every_call([&](const RecordingSystem&) {
    bool is_damaged = told_;
    const auto take = [&](const CheckFinding& finding) {
      is_damaged = is_damaged || finding.kind == CheckFinding::Kind::damage;
      finished += finding.file == part_ + "/repair" ? 1 : 0;
    };
    if (!told_ && fs::exists(part_ + "/repair/plan")) {
      RepairOptions dry;
      dry.dry_run = true;
      repair_partition(part_, dry, ignore, [&](const RepairResult& result) { EXPECT_EQ(result.lost.size(), 2u); });
    }
    const bool was_told = told_;
    repair_partition(part_, {}, take, [&](const RepairResult& result) {
      if (!was_told) expect_told(result);
    });
    EXPECT_TRUE(told_);
    EXPECT_TRUE(is_damaged);
  });
  EXPECT_GT(calls, 40);
  EXPECT_GT(finished, 10);
}

TEST_F(PartitionRepairTest, WhatCannotBeToldIsToldByTheNextOne) {
  const auto refuse = [](const RepairResult&) { throw Error(ErrorCode::io, "no space left"); };
  EXPECT_THROW(repair_partition(part_, {}, ignore, refuse), Error);
  EXPECT_THROW(rebuild_indexes(part_, {}), Error);
  EXPECT_THROW(repair_partition(part_, {}, ignore, refuse), Error);
  repair_partition(part_, {}, ignore, [&](const RepairResult& result) { expect_told(result); });
  EXPECT_TRUE(told_);
  expect_repaired();
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

// A segment that begins inside of a batch, by its name: at whatever call the repair dies, nothing is lost, also if a writer comes
// in between, unless the log seems to be shorter then.
TEST_F(PartitionRepairTest, AWrongNameIsPutRightAfterACrashAnywhere) {
  const auto topic = make_topic({{"segment.bytes", "400"}}, 1, "named");
  const auto part = partition_directory(topic);
  TestProducer producer(store_, topic);
  for (int n = 0; n < 12; ++n) producer.append_batch({"one", "two", "three", "four " + std::to_string(n)});
  producer.sync();
  const auto values = read_all(store_, topic).values();
  const auto segments = check_log(part).segments;
  ASSERT_GE(segments.size(), 3u);
  const auto name = [](std::int64_t base) { return format::segment_file_name(Offset{base}, ".log"); };
  const auto last = segments.back().base;
  for (const auto& [from, to] : {std::pair(last, last + 1), {last, std::int64_t{1}}, {std::int64_t{0}, last + 2}}) {
    SCOPED_TRACE(name(from) + " as " + name(to));
    part_ = part;
    fs::remove_all(directory_.path() + "/damaged");
    fs::copy(part, directory_.path() + "/damaged", fs::copy_options::recursive);
    fs::rename(directory_.path() + "/damaged/" + name(from), directory_.path() + "/damaged/" + name(to));
    const auto sound = directory_.path("sound");
    fs::rename(part, sound);
    die_at_every_call(
        [&](const RecordingSystem&) {
          auto expected = values;
          const bool seems_shorter = to < last && from == last;
          try {
            if (!seems_shorter) {
              TestProducer writer(store_, topic);
              writer.append("between");
              writer.sync();
              expected.emplace_back("between");
            }
          } catch (const Error&) {  // the damage is there still
          }
          repair_partition(part, {}, ignore);
          EXPECT_EQ(check_partition(part, {}, ignore).verdict, Verdict::clean);
          EXPECT_EQ(read_all(store_, topic).values(), expected);
          EXPECT_FALSE(fs::exists(part + "/lost-offsets"));
          EXPECT_EQ(repair_partition(part, {}, ignore).before, Verdict::clean);
        },
        [](const RepairResult& result) { EXPECT_TRUE(result.lost.empty()); });
    fs::remove_all(part);
    fs::rename(sound, part);
  }
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

#include "support/faulty_system.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "os/directory.h"
#include "partlog/error.h"
#include "support/temporary_directory.h"

namespace partlog::test {
namespace {

using os::File;

// A root that is recorded, and what power failures leave of it.
class PowerCutTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path("root/" + name); }

  void record() {
    os::make_directories(directory_.path("root"));
    recorder_.emplace(directory_.path("root"));
    scoped_.emplace(*recorder_);
  }
  // `look` is shown the root that each of many failures leaves.
  void after_power_cuts(const std::function<void(const std::string&)>& look) const {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      auto left = directory_.path("left");
      recorder_->power_cut(left, seed);
      look(left);
      os::remove_tree(left);
    }
  }
  // The different contents of one file, "-" if it is absent.
  std::set<std::string> outcomes(const std::string& name) const {
    std::set<std::string> seen;
    after_power_cuts([&](const std::string& root) { seen.insert(os::read_file(root + "/" + name).value_or("-")); });
    return seen;
  }

  TemporaryDirectory directory_;
  std::optional<RecordingSystem> recorder_;
  std::optional<os::ScopedSystem> scoped_;
};

using Outcomes = std::set<std::string>;

TEST_F(PowerCutTest, KeepsWhatWasThereBefore) {
  os::make_directories(path("a/b"));
  os::replace_file(path("a/b/file"), "old", false);
  record();
  EXPECT_EQ(outcomes("a/b/file"), Outcomes{"old"});
}

TEST_F(PowerCutTest, KeepsSyncedDataUnderASyncedName) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  file.write_at(std::string_view("data"), 0);
  auto before = outcomes("x");
  EXPECT_TRUE(before.contains("-"));
  EXPECT_TRUE(before.contains(""));
  EXPECT_TRUE(before.contains("data"));
  EXPECT_TRUE(before.contains(std::string("\0\0\0\0", 4)));
  file.sync_data();
  EXPECT_EQ(outcomes("x"), (Outcomes{"-", "data"}));
  os::sync_directory(path(""));
  EXPECT_EQ(outcomes("x"), Outcomes{"data"});
}

TEST_F(PowerCutTest, ASyncedNameDoesNotKeepUnsyncedData) {
  record();
  File::open(path("x"), File::Mode::create).write_at(std::string_view("data"), 0);
  os::sync_directory(path(""));
  auto seen = outcomes("x");
  EXPECT_FALSE(seen.contains("-"));
  EXPECT_TRUE(seen.contains(""));
}

TEST_F(PowerCutTest, LosesPagesInAnyOrder) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  const std::string page(4096, 'a');
  file.write_at(page, 0);
  file.sync_data();
  os::sync_directory(path(""));
  for (int i = 1; i < 4; ++i) file.write_at(std::string(4096, static_cast<char>('a' + i)), i * 4096);
  bool hole_before_data = false;
  after_power_cuts([&](const std::string& root) {
    auto text = *os::read_file(root + "/x");
    ASSERT_GE(text.size(), 4096U);
    ASSERT_LE(text.size(), 4 * 4096U);
    ASSERT_EQ(text.substr(0, 4096), page);
    for (std::size_t i = 0; i < text.size(); ++i)  // never another byte than the written one or zero, whole pages alike
      ASSERT_TRUE(text[i] == static_cast<char>('a' + i / 4096) || text[i] == '\0');
    if (text.size() > 2 * 4096 && text[4096] == '\0' && text.back() != '\0') hole_before_data = true;
  });
  EXPECT_TRUE(hole_before_data);
}

TEST_F(PowerCutTest, ALostPageKeepsWhatWasSyncedInIt) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  file.write_at(std::string_view("old-old"), 0);
  file.sync_data();
  os::sync_directory(path(""));
  file.write_at(std::string_view("NEW"), 4);
  EXPECT_EQ(outcomes("x"), (Outcomes{"old-old", "old-NEW"}));
  file.write_at(std::string_view("NEW"), 0);
  EXPECT_EQ(outcomes("x"), (Outcomes{"old-old", "old-NEW", "NEW-NEW"}));  // in the order written
}

TEST_F(PowerCutTest, TruncationsAreKeptOrLost) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  file.write_at(std::string_view("0123"), 0);
  file.sync_data();
  os::sync_directory(path(""));
  file.truncate(2);
  EXPECT_EQ(outcomes("x"), (Outcomes{"0123", "01"}));
  file.write_at(std::string_view("ab"), 2);
  auto seen = outcomes("x");
  EXPECT_TRUE(seen.contains("0123") && seen.contains("01") && seen.contains("01ab"));
  EXPECT_FALSE(seen.contains("01a3"));
}

TEST_F(PowerCutTest, AReplacedFileIsOldOrNew) {
  record();
  os::replace_file(path("x"), "old", true);
  EXPECT_EQ(outcomes("x"), Outcomes{"old"});
  os::replace_file(path("x"), "unsynced", false);
  auto seen = outcomes("x");
  EXPECT_TRUE(seen.contains("old") && seen.contains("") && !seen.contains("-"));  // the trap of a rename without a sync
  os::replace_file(path("x"), "new", true);
  EXPECT_EQ(outcomes("x"), Outcomes{"new"});
}

TEST_F(PowerCutTest, ARenameBetweenDirectoriesIsWholeOrNot) {
  record();
  os::make_directory(path("staging"));
  os::make_directory(path("topics"));
  os::make_directory(path("staging/t"));
  os::replace_file(path("staging/t/file"), "1", true);
  os::sync_directory(path("staging"));
  os::sync_directory(path(""));
  os::rename_path(path("staging/t"), path("topics/t"));
  Outcomes where;
  after_power_cuts([&](const std::string& root) {
    auto before = os::read_file(root + "/staging/t/file"), after = os::read_file(root + "/topics/t/file");
    EXPECT_NE(before.has_value(), after.has_value());
    where.insert(before ? "before" : "after");
  });
  EXPECT_EQ(where.size(), 2U);
  os::sync_directory(path("topics"));
  EXPECT_EQ(outcomes("topics/t/file"), Outcomes{"1"});
  EXPECT_EQ(outcomes("staging/t/file"), Outcomes{"-"});
}

TEST_F(PowerCutTest, RemovalsMayComeBack) {
  record();
  os::make_directory(path("d"));
  os::replace_file(path("d/x"), "1", true);
  os::sync_directory(path(""));
  os::remove_tree(path("d"));
  EXPECT_EQ(outcomes("d/x"), (Outcomes{"1", "-"}));
  os::sync_directory(path(""));
  EXPECT_EQ(outcomes("d/x"), Outcomes{"-"});
  after_power_cuts([&](const std::string& root) { EXPECT_TRUE(os::list_directory(root).empty()); });
}

TEST_F(PowerCutTest, NamesAreNotReusedBeforeTheirRemoval) {
  record();
  os::replace_file(path("a"), "first", true);
  os::rename_path(path("a"), path("b"));
  os::replace_file(path("a"), "second", false);
  after_power_cuts([&](const std::string& root) {
    auto a = os::read_file(root + "/a"), b = os::read_file(root + "/b");
    EXPECT_TRUE(a == "first" || b == "first");
  });
}

TEST_F(PowerCutTest, TheSameSeedLeavesTheSame) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  os::sync_directory(path(""));
  for (int i = 0; i < 50; ++i) file.write_at(std::string(1000, static_cast<char>('A' + i)), i * 1000);
  recorder_->power_cut(directory_.path("one"), 7);
  recorder_->power_cut(directory_.path("two"), 7);
  EXPECT_EQ(os::read_file(directory_.path("one/x")), os::read_file(directory_.path("two/x")));
}

TEST_F(PowerCutTest, TheHookSeesTheMomentsAroundASync) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  os::sync_directory(path(""));
  file.write_at(std::string_view("data"), 0);
  std::vector<std::optional<std::string>> seen;
  recorder_->set_hook([&](RecordingSystem::Moment) {
    auto left = directory_.path("left" + std::to_string(seen.size()));
    recorder_->power_cut(left, 0);
    os::replace_file(directory_.path("outside"), "", true);  // no hook for what is not below the root
    seen.push_back(os::read_file(left + "/x"));
  });
  file.sync_data();
  EXPECT_EQ(seen, (std::vector<std::optional<std::string>>{"", "data"}));
}

TEST_F(PowerCutTest, ASyncThatFailedKeepsNothing) {
  record();
  auto file = File::open(path("x"), File::Mode::create);
  os::sync_directory(path(""));
  file.write_at(std::string_view("data"), 0);
  FailingSystem faulty(*recorder_);
  faulty.fail(1, EIO);
  os::ScopedSystem scoped(faulty);
  EXPECT_THROW(file.sync_data(), Error);
  EXPECT_TRUE(outcomes("x").contains(""));
}

TEST(FailingSystem, CountsAndFailsTheCallAskedFor) {
  TemporaryDirectory directory;
  FailingSystem faulty(FailingSystem::Count::changes);
  os::ScopedSystem scoped(faulty);
  auto file = File::open(directory.path("x"), File::Mode::create);
  file.write_at(std::string_view("a"), 0);
  EXPECT_EQ(file.size(), 1);
  EXPECT_EQ(faulty.calls(), 2);
  faulty.fail(4, EIO);
  file.write_at(std::string_view("a"), 0);
  EXPECT_FALSE(faulty.fired());
  EXPECT_THROW(file.sync_data(), Error);
  EXPECT_TRUE(faulty.fired());
  EXPECT_NO_THROW(file.sync_data());
  faulty.fail(6, ENOSPC, true);
  EXPECT_THROW(file.write_at(std::string_view("a"), 0), Error);
  EXPECT_THROW(file.write_at(std::string_view("a"), 0), Error);
}

TEST(FailingSystem, ShortensOneWriteAndFailsTheNext) {
  TemporaryDirectory directory;
  auto file = File::open(directory.path("x"), File::Mode::create);
  FailingSystem faulty;
  os::ScopedSystem scoped(faulty);
  faulty.shorten_write(2, ENOSPC);
  file.write_at(std::string_view("0123"), 0);
  EXPECT_THROW(file.write_at(std::string_view("4567"), 4), Error);
  EXPECT_EQ(os::read_file(directory.path("x")), "012345");
  EXPECT_NO_THROW(file.write_at(std::string_view("4567"), 4));
}

}  // namespace
}  // namespace partlog::test

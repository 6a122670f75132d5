// Committed offsets: what stands in the files, what a position means against the log, and who may change it.
#include "partlog/group.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "format/offset_file.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "partlog/group_member.h"
#include "partlog/locks.h"
#include "support/child_process.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using State = GroupPosition::State;

std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return std::nullopt;
}

void expect_error(ErrorCode code, const std::vector<std::string>& parts, const std::function<void()>& action) {
  const auto error = error_of(action);
  if (!error) return;
  EXPECT_EQ(error->code(), code) << error->what();
  for (const auto& part : parts) EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
}

class GroupTest : public LogTest {
 protected:
  GroupTest() : topic_(make_topic({}, 2)), group_(Group::open_or_create(store_, "g")) { append(10); }

  void append(int count, const std::string& value = "value") {
    TestProducer producer(store_, topic_, into_partition(0));
    for (int i = 0; i < count; ++i) producer.append(value);
    producer.sync();
  }
  std::string offset_file(int partition = 0) const { return group_.directory() + "/offsets/t/" + std::to_string(partition); }
  GroupPosition position() const { return *group_.position(store_, topic_, 0); }
  void set_log_start(std::int64_t start) {
    os::replace_file(partition_directory(topic_) + "/log-start-offset", std::to_string(start) + "\n", false);
  }
  void add_cut(std::int64_t offset) {
    const auto file = partition_directory(topic_) + "/cuts";
    os::replace_file(file, os::read_file(file).value_or("") + std::to_string(offset) + " boot 2026-01-01T00:00:00.000Z\n", false);
  }

  Topic topic_;
  Group group_;
};

TEST_F(GroupTest, OffsetFileIsTextThatSaysEverything) {
  ManualClock clock;
  os::ScopedClock scoped(clock);
  clock.set({1'769'860'800'007});
  group_.commit(store_, topic_, 0, Offset{7}, "line\nof \\ metadata\x01");
  EXPECT_EQ(contents_of(offset_file()),
            "committed_at=2026-01-31T12:00:00.007Z\ncuts=0\nleader_epoch=-1\nmember=\n"
            "metadata=line\\nof \\\\ metadata\\x01\noffset=7\npath_synced=true\ntopic_id=" +
                topic_.id + "\n");
  const auto committed = *group_.committed("t", 0);
  EXPECT_EQ(committed.offset, Offset{7});
  EXPECT_EQ(committed.metadata, "line\nof \\ metadata\x01");
  EXPECT_EQ(committed.committed_at, Timestamp{1'769'860'800'007});
  EXPECT_EQ(group_.partitions(), (std::vector<TopicPartition>{{"t", 0}}));
  EXPECT_EQ(fs::file_size(offset_file() + ".lock"), 0u);
  EXPECT_FALSE(group_.committed("t", 1));
  EXPECT_FALSE(group_.committed("other", 0));
}

TEST_F(GroupTest, WhatAKilledProcessLeftIsNoHindranceAndDoesNotPileUp) {
  group_.commit(store_, topic_, 0, Offset{1});
  overwrite(offset_file() + ".tmp", "offs");
  group_.commit(store_, topic_, 0, Offset{2});
  EXPECT_EQ(position().offset, Offset{2});
  auto names = os::list_directory(group_.directory() + "/offsets/t");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"0", "0.lock"}));
}

TEST_F(GroupTest, CommitMovesForwardOnly) {
  group_.commit(store_, topic_, 0, Offset{5});
  const auto before = contents_of(offset_file());
  group_.commit(store_, topic_, 0, Offset{5});
  EXPECT_EQ(contents_of(offset_file()), before);
  expect_error(ErrorCode::refused, {"t:0", "position is 5", "4"}, [&] { group_.commit(store_, topic_, 0, Offset{4}); });
  expect_error(ErrorCode::offset_out_of_range, {"position is 5", "11", "end offset 10"},
               [&] { group_.commit(store_, topic_, 0, Offset{11}); });
  EXPECT_EQ(contents_of(offset_file()), before);
  group_.commit(store_, topic_, 0, Offset{10});
  set_log_start(3);
  expect_error(ErrorCode::offset_out_of_range, {"below the log start offset 3", "no position"},
               [&] { Group::open_or_create(store_, "other").commit(store_, topic_, 0, Offset{2}); });
  EXPECT_FALSE(fs::exists(store_.directory() + "/groups/other/offsets/t/0"));
  expect_error(ErrorCode::invalid_argument, {"0 to 1"}, [&] { group_.commit(store_, topic_, 2, Offset{0}); });
  expect_error(ErrorCode::invalid_argument, {"4097", "4096"},
               [&] { group_.commit(store_, topic_, 0, Offset{10}, std::string(4097, 'x')); });
}

// A dry run says what the commit would, and does nothing.
TEST_F(GroupTest, CommitCanBeCheckedBefore) {
  const auto check = [&](const char* group, int partition, std::int64_t next, const std::string& metadata = {}) {
    return Group::check_commit(store_, group, topic_, partition, Offset{next}, metadata);
  };
  EXPECT_FALSE(check("g", 0, 5));
  EXPECT_FALSE(check("none", 0, 10));
  EXPECT_EQ(Group::names(store_), (std::vector<std::string>{"g"}));
  EXPECT_FALSE(fs::exists(offset_file() + ".lock"));
  group_.commit(store_, topic_, 0, Offset{5});
  const auto before = snapshot(group_.directory() + "/offsets/t");
  EXPECT_EQ(check("g", 0, 5)->offset, Offset{5});
  EXPECT_EQ(check("g", 0, 10)->offset, Offset{5});

  struct Refusal {
    int partition;
    std::int64_t next;
    std::string metadata;
  };
  const auto expect_the_same = [&](const Refusal& r) {
    const auto foreseen = error_of([&] { check("g", r.partition, r.next, r.metadata); });
    const auto met = error_of([&] { group_.commit(store_, topic_, r.partition, Offset{r.next}, r.metadata); });
    ASSERT_TRUE(foreseen && met);
    EXPECT_EQ(foreseen->code(), met->code());
    EXPECT_STREQ(foreseen->what(), met->what());
  };
  for (const auto& refusal : {Refusal{0, 4, ""}, {0, 11, ""}, {1, 1, ""}, {2, 0, ""}, {0, 6, std::string(4097, 'x')}}) {
    expect_the_same(refusal);
  }
  overwrite(offset_file(), "garbage");
  expect_the_same({0, 6, ""});
  overwrite(offset_file(), before.at("0"));
  expect_error(ErrorCode::offset_out_of_range, {"\"none\", t:0", "end offset 10", "no position"}, [&] { check("none", 0, 11); });
  expect_error(ErrorCode::invalid_argument, {"\"a/b\""}, [&] { check("a/b", 0, 0); });
  EXPECT_FALSE(fs::exists(offset_file(1)));
}

TEST_F(GroupTest, CommitWaitsForTheOffsetLock) {
  group_.commit(store_, topic_, 0, Offset{5});
  ChildProcess child([&](Line& line) {
    const auto guard = os::FileLock::open(offset_file() + ".lock").lock();
    line.send();
    line.receive();
    return 0;
  });
  ASSERT_TRUE(child.line().receive());
  expect_error(ErrorCode::busy, {"process " + std::to_string(child.pid())},
               [&] { group_.commit(store_, topic_, 0, Offset{6}, {}, 20ms); });
  child.line().send();
  group_.commit(store_, topic_, 0, Offset{6});
  EXPECT_EQ(position().offset, Offset{6});
}

TEST_F(GroupTest, PositionAgainstTheLog) {
  EXPECT_FALSE(group_.position(store_, topic_, 0));
  group_.commit(store_, topic_, 0, Offset{4});
  auto at = position();
  EXPECT_EQ(at.state, State::in_log);
  EXPECT_EQ(at.start, Offset{0});
  EXPECT_EQ(at.end, Offset{10});
  set_log_start(4);
  EXPECT_EQ(position().state, State::in_log);
  set_log_start(5);
  at = position();
  EXPECT_EQ(at.state, State::below_start);
  EXPECT_EQ(at.offset, Offset{4});
  EXPECT_EQ(at.start, Offset{5});
  GroupChange(group_).reset(topic_, 0, Offset{11});
  EXPECT_EQ(position().state, State::past_end);
  GroupChange(group_).reset(topic_, 0, Offset{10});
  EXPECT_EQ(position().state, State::in_log);
}

TEST_F(GroupTest, PositionAboveACutItHadNotSeenGoesOnAtTheLowestSuchCut) {
  add_cut(1);  // seen by the commit
  group_.commit(store_, topic_, 0, Offset{8});
  EXPECT_EQ(group_.committed("t", 0)->cuts, 1u);
  EXPECT_EQ(position().state, State::in_log);
  add_cut(8);
  add_cut(9);
  EXPECT_EQ(position().state, State::in_log);
  add_cut(6);
  add_cut(7);
  const auto at = position();
  EXPECT_EQ(at.state, State::cut);
  EXPECT_EQ(at.offset, Offset{6});
  EXPECT_EQ(at.committed, Offset{8});
  // A commit goes forward from there, though the file says 8.
  expect_error(ErrorCode::refused, {"position is 6"}, [&] { group_.commit(store_, topic_, 0, Offset{5}); });
  group_.commit(store_, topic_, 0, Offset{7});
  EXPECT_EQ(position().state, State::in_log);
  EXPECT_EQ(group_.committed("t", 0)->offset, Offset{7});
  EXPECT_EQ(group_.committed("t", 0)->cuts, 5u);
}

TEST_F(GroupTest, CutBelowTheLogStartIsBelowTheStart) {
  group_.commit(store_, topic_, 0, Offset{8});
  add_cut(2);
  set_log_start(3);
  const auto at = position();
  EXPECT_EQ(at.state, State::below_start);
  EXPECT_EQ(at.offset, Offset{2});
  EXPECT_EQ(at.committed, Offset{8});
}

// Records that were never synced are lost with a restart of the host; a group had committed behind them.
TEST_F(GroupTest, PositionAboveTheEndAfterARestart) {
  {
    TestProducer producer(store_, topic_, into_partition(0));
    for (int i = 0; i < 3; ++i) producer.append("lost");
  }
  group_.commit(store_, topic_, 0, Offset{13});
  const auto log = checked(topic_);
  restart_host(partition_directory(topic_));
  fs::resize_file(log.segments[0].path, static_cast<std::uintmax_t>(log.segments[0].batches[11].position));
  auto at = position();
  EXPECT_EQ(at.state, State::cut);
  EXPECT_EQ(at.offset, Offset{11});
  EXPECT_EQ(at.committed, Offset{13});
  // Before anybody has consumed, new records fill the place of the lost ones.
  append(5, "new");
  at = position();
  EXPECT_EQ(at.state, State::cut);
  EXPECT_EQ(at.offset, Offset{11});
  EXPECT_EQ(at.end, Offset{16});
}

TEST_F(GroupTest, PositionPastTheEndWithoutARestartStaysAnError) {
  GroupChange(group_).reset(topic_, 0, Offset{12});
  EXPECT_EQ(position().state, State::past_end);
  EXPECT_EQ(position().offset, Offset{12});
  append(1);
  EXPECT_EQ(position().state, State::past_end);
}

TEST_F(GroupTest, TopicMadeAnewHasNoPosition) {
  group_.commit(store_, topic_, 0, Offset{4});
  store_.delete_topic(topic_);
  topic_ = make_topic({}, 2);
  EXPECT_FALSE(group_.position(store_, topic_, 0));
  EXPECT_EQ(group_.committed("t", 0)->offset, Offset{4});
  append(2);
  group_.commit(store_, topic_, 0, Offset{1});
  EXPECT_EQ(position().offset, Offset{1});
  EXPECT_EQ(group_.committed("t", 0)->topic_id, topic_.id);
}

// What a script knows of a topic is from before it waited for the lock.
TEST_F(GroupTest, NothingIsWrittenForATopicMadeAnewMeanwhile) {
  const auto old = topic_;
  store_.delete_topic(topic_);
  topic_ = make_topic({}, 2);
  TestProducer(store_, topic_, into_partition(0)).append("value");
  group_.commit(store_, topic_, 0, Offset{1});
  expect_error(ErrorCode::not_found, {"topic \"t\"", "made anew"}, [&] { group_.commit(store_, old, 0, Offset{1}); });
  expect_error(ErrorCode::not_found, {"topic \"t\"", "made anew"}, [&] { GroupChange(group_).reset(old, 0, Offset{0}); });
  EXPECT_EQ(position().offset, Offset{1});
}

TEST_F(GroupTest, DamagedFilesAreNamedAndHarmNobodyElse) {
  group_.commit(store_, topic_, 0, Offset{4});
  group_.commit(store_, topic_, 1, Offset{0});
  const auto whole = contents_of(offset_file());
  std::vector<std::string> bad{"", "garbage\n", std::string(64, '\0'), "offset=4\n"};
  for (std::size_t size = 1; size < whole.size(); ++size) bad.push_back(whole.substr(0, size));
  for (auto text : {"offset=-1", "offset=x", "offset=99999999999999999999", "committed_at=yesterday", "metadata=\\q"}) {
    const auto key = std::string(text).substr(0, std::string(text).find('=') + 1);
    auto changed = whole;
    const auto at = changed.find(key);
    changed.replace(at, changed.find('\n', at) - at, text);
    bad.push_back(changed);
  }
  for (const auto& text : bad) {
    overwrite(offset_file(), text);
    const std::vector<std::string> parts{offset_file(), "reset-offset"};
    expect_error(ErrorCode::damaged, parts, [&] { group_.committed("t", 0); });
    expect_error(ErrorCode::damaged, parts, [&] { group_.position(store_, topic_, 0); });
    expect_error(ErrorCode::damaged, parts, [&] { group_.commit(store_, topic_, 0, Offset{5}); });
    ASSERT_FALSE(HasFailure()) << text;
  }
  EXPECT_EQ(group_.position(store_, topic_, 1)->offset, Offset{0});
  GroupChange(group_).reset(topic_, 0, Offset{2});
  EXPECT_EQ(position().offset, Offset{2});

  fs::remove(offset_file());
  fs::create_directory(offset_file());
  expect_error(ErrorCode::io, {offset_file(), "move the directory away"}, [&] { group_.committed("t", 0); });
  EXPECT_EQ(group_.partitions(), (std::vector<TopicPartition>{{"t", 0}, {"t", 1}}));
  expect_error(ErrorCode::io, {offset_file()}, [&] { GroupChange(group_).reset(topic_, 0, Offset{2}); });
  expect_error(ErrorCode::io, {offset_file()}, [&] { GroupChange(group_).remove_offset("t", 0); });
  EXPECT_EQ(group_.position(store_, topic_, 1)->offset, Offset{0});

  overwrite(group_.directory() + "/group.properties", "genera");
  expect_error(ErrorCode::damaged, {"group.properties"}, [&] { group_.state(); });
  GroupChange(group_).reset(topic_, 1, Offset{0});  // nobody lives who could stand in it
}

TEST_F(GroupTest, FilesInPlaceOfDirectoriesAreNotHealth) {
  const auto directory = group_.directory() + "/offsets/t";
  os::replace_file(directory, "text", false);
  expect_error(ErrorCode::io, {directory, "not a directory"}, [&] { group_.position(store_, topic_, 0); });
  expect_error(ErrorCode::io, {directory, "not a directory"}, [&] { group_.committed("t", 0); });
  std::vector<FailedTopic> failed;
  EXPECT_TRUE(group_.partitions(&failed).empty());
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].topic, "t");
  EXPECT_TRUE(group_.partitions().empty());
  fs::remove_all(group_.directory() + "/offsets");
  os::replace_file(group_.directory() + "/offsets", "text", false);
  expect_error(ErrorCode::io, {"/offsets"}, [&] { group_.partitions(); });
  expect_error(ErrorCode::io, {"/offsets"}, [&] { group_.position(store_, topic_, 0); });
}

TEST_F(GroupTest, ForeignNamesAreNoGroupsAndNoPartitions) {
  const auto groups = store_.directory() + "/groups";
  fs::create_directories(groups + "/lost+found");
  fs::create_directories(groups + "/no-lock-file");
  overwrite(groups + "/.g.swp", "x");
  overwrite(groups + "/g~", "x");
  EXPECT_EQ(Group::names(store_), (std::vector<std::string>{"g"}));
  group_.commit(store_, topic_, 0, Offset{4});
  fs::create_directories(group_.directory() + "/offsets/lost+found");
  for (const auto* name : {"/offsets/file", "/offsets/t/01", "/offsets/t/-1", "/offsets/t/0~", "/offsets/t/.0.swp"}) {
    overwrite(group_.directory() + name, "x");
  }
  EXPECT_EQ(group_.partitions(), (std::vector<TopicPartition>{{"t", 0}}));
}

TEST_F(GroupTest, OpensByName) {
  EXPECT_EQ(Group::open(store_, "g").name(), "g");
  Group::open_or_create(store_, "clicks");
  expect_error(ErrorCode::not_found, {"no group \"click\"", "similar: clicks"}, [&] { Group::open(store_, "click"); });
  expect_error(ErrorCode::invalid_argument, {"group name \"a/b\""}, [&] { Group::open(store_, "a/b"); });
  expect_error(ErrorCode::invalid_argument, {"group name \"..\""}, [&] { Group::open_or_create(store_, ".."); });
  EXPECT_TRUE(Group::names(Store::open_or_create(directory_.path("other"))).empty());
}

TEST_F(GroupTest, RemovesOffsetsAndGroups) {
  group_.commit(store_, topic_, 0, Offset{4});
  {
    GroupChange change(group_);
    EXPECT_TRUE(change.remove_offset("t", 0));
    EXPECT_FALSE(change.remove_offset("t", 0));
    EXPECT_FALSE(change.remove_offset("t", 1));
    EXPECT_FALSE(change.remove_offset("other", 1));
  }
  EXPECT_FALSE(group_.committed("t", 0));
  group_.commit(store_, topic_, 0, Offset{4});
  GroupChange(group_).remove_group();
  EXPECT_TRUE(Group::names(store_).empty());
  EXPECT_TRUE(os::list_directory(store_.directory() + "/trash").empty());
  expect_error(ErrorCode::not_found, {"\"g\" was deleted"}, [&] { group_.commit(store_, topic_, 0, Offset{4}); });
  expect_error(ErrorCode::not_found, {"\"g\" was deleted"}, [&] { GroupChange change(group_); });
  EXPECT_FALSE(fs::exists(group_.directory()));
  EXPECT_FALSE(Group::open_or_create(store_, "g").committed("t", 0));
}

// Whoever waited for the lock of a group that was deleted and made anew meanwhile changes the new one.
TEST_F(GroupTest, ChangesTheGroupThatStandsAtThePath) {
  ChildProcess child([&](Line& line) {
    line.receive();
    GroupChange(group_).reset(topic_, 0, Offset{3});
    return 0;
  });
  std::optional<GroupChange> change(std::in_place, group_);
  child.line().send();
  const auto waits = [&] {  // proc(5): "1: -> POSIX  ADVISORY  WRITE <pid> ..."
    const auto locks = os::read_file("/proc/locks").value_or("");
    const auto arrow = locks.find("-> POSIX");
    return arrow != std::string::npos && locks.find(" " + std::to_string(child.pid()) + " ", arrow) != std::string::npos;
  };
  while (!waits()) ASSERT_EQ(::kill(child.pid(), 0), 0);
  change->remove_group();
  const auto made = Group::open_or_create(store_, "g");
  std::optional<GroupChange> second(std::in_place, made);
  change.reset();
  while (!waits()) ASSERT_FALSE(made.committed("t", 0));  // now for the new one's lock
  second.reset();
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(made.position(store_, topic_, 0)->offset, Offset{3});
}

TEST_F(GroupTest, ChangesExcludeEachOther) {
  GroupChange change(group_);
  expect_error(ErrorCode::busy, {"group.lock"}, [&] { GroupChange another(group_, 10ms); });
}

TEST_F(GroupTest, ReadingChangesNothing) {
  group_.commit(store_, topic_, 0, Offset{4});
  const auto before = snapshot(group_.directory() + "/offsets/t");
  const auto names = os::list_directory(group_.directory()).size();
  Group::open(store_, "g").position(store_, topic_, 0);
  Group::open(store_, "g").position(store_, topic_, 1);
  Group::open(store_, "g").owner("t", 0);
  Group::open(store_, "g").owner("none", 0);
  EXPECT_EQ(Group::open(store_, "g").state().generation, 0);
  EXPECT_EQ(snapshot(group_.directory() + "/offsets/t"), before);
  EXPECT_EQ(os::list_directory(group_.directory()).size(), names);
  EXPECT_TRUE(os::list_directory(group_.directory() + "/claims").empty());
}

void set_permissions(const std::string& tree, fs::perms directories, fs::perms files) {
  fs::permissions(tree, directories);
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    fs::permissions(entry.path(), entry.is_directory() ? directories : files);
  }
}

// As one who may read everything, and write nothing.
TEST_F(GroupTest, LookingNeedsNoPermissionToWriteAndChangingIsRefused) {
  group_.commit(store_, topic_, 0, Offset{4});
  std::optional<GroupMember> member(std::in_place, store_, group_, std::vector<std::string>{"t"}, GroupMemberOptions{});
  while (!group_.owner("t", 0) || group_.owner("t", 0)->id.empty()) member->poll();
  using fs::perms;
  const auto read = perms::owner_read | perms::group_read | perms::others_read;
  const auto search = read | perms::owner_exec | perms::group_exec | perms::others_exec;
  set_permissions(directory_.path(), search, read);
  const auto before = os::list_directory(group_.directory() + "/members");
  ChildProcess reader([&](Line&) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    const auto store = Store::open(store_.directory());
    const auto group = Group::open(store, "g");
    const auto refused = [](const std::function<void()>& action) { return error_of(action)->system_error() == EACCES; };
    int failed = 0;
    int step = 0;
    const auto expect = [&](bool holds) {
      ++step;
      if (!holds && failed == 0) failed = 10 + step;
    };
    expect(Group::names(store).size() == 1);
    expect(group.partitions().size() == 2);
    expect(group.position(store, topic_, 0)->offset == Offset{4});
    expect(group.state().members.size() == 1);
    expect(group.owner("t", 0)->id == member->id());
    expect(locks(store).size() == 3);  // of the member and its two claims
    expect(error_of([&] { Group::check_commit(store, "g", topic_, 0, Offset{5}); })->code() == ErrorCode::busy);
    expect(refused([&] { group.commit(store, topic_, 0, Offset{5}); }));
    expect(refused([&] { GroupChange change(group); }));
    expect(refused([&] { Group::open_or_create(store, "new"); }));
    const auto joining = error_of([&] { GroupMember another(store, group, {"t"}, {}); });
    expect(joining->code() == ErrorCode::refused && joining->system_error() == EACCES);
    return failed;
  });
  EXPECT_EQ(reader.wait(), 0);
  set_permissions(directory_.path(), perms::owner_all, perms::owner_read | perms::owner_write);
  EXPECT_EQ(os::list_directory(group_.directory() + "/members"), before);
  EXPECT_EQ(position().offset, Offset{4});
}

}  // namespace
}  // namespace partlog::test

// Members of a group: who gets which partitions, takeover, fencing.
#include "partlog/group_member.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "group_consumer.h"
#include "os/directory.h"
#include "os/file_lock.h"
#include "os/host.h"
#include "os/system.h"
#include "partlog/locks.h"
#include "support/child_process.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto long_time = 30s;  // far longer than any of these tests may take

GroupMemberOptions with_commits(bool commits) {
  GroupMemberOptions options;
  options.commits = commits;
  return options;
}
GroupMemberOptions with_assignor(Assignor assignor) {
  GroupMemberOptions options;
  options.assignor = assignor;
  return options;
}

std::optional<ErrorCode> code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

class GroupMemberTest : public LogTest {
 protected:
  void append(const Topic& topic, int partition, int count) {
    TestProducer producer(store_, topic, into_partition(partition));
    for (int i = 0; i < count; ++i) producer.append("value");
  }
  Group group() const { return Group::open_or_create(store_, "g"); }
};

TEST_F(GroupMemberTest, TakesEverythingWhenAlone) {
  const auto topic = make_topic({}, 3);
  append(topic, 1, 5);
  group().commit(store_, topic, 1, Offset{2});
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions() == all_of("t", 3); }));
  EXPECT_FALSE(one.owned["t:0"]);
  ASSERT_TRUE(one.owned["t:1"]);
  EXPECT_EQ(one.owned["t:1"]->offset, Offset{2});
  EXPECT_TRUE(one.member.awaited().empty());

  one.member.commit({"t", 1}, Offset{4}, 0);
  EXPECT_EQ(group().committed("t", 1)->offset, Offset{4});
  EXPECT_EQ(group().committed("t", 1)->member, one.member.id());
  one.member.commit({"t", 1}, Offset{3}, 0);  // lower: nothing
  EXPECT_EQ(group().committed("t", 1)->offset, Offset{4});
  one.member.leave();
  EXPECT_TRUE(group().state().members.empty());
  EXPECT_TRUE(os::list_directory(group().directory() + "/members").empty());
}

TEST_F(GroupMemberTest, MembersShareAndPartitionsThatStayAreNotInterrupted) {
  make_topic({}, 4);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
  Consumer two(store_, "g", {"t"});
  const auto shared = [&] { return one.partitions().size() == 2 && two.partitions().size() == 2; };
  ASSERT_TRUE(until({&one, &two}, shared));
  EXPECT_EQ(one.revoked.size(), 2u);
  const auto state = group().state();
  ASSERT_EQ(state.members.size(), 2u);
  EXPECT_EQ(state.assignor, "sticky");
  for (const auto& member : state.members) {
    EXPECT_EQ(member.pid, ::getpid());
    EXPECT_EQ(member.topics, (std::vector<std::string>{"t"}));
    EXPECT_EQ(member.assigned.size(), 2u);
  }
  for (const auto& partition : two.partitions()) {
    const auto owner = group().owner("t", partition.back() - '0');
    ASSERT_TRUE(owner);
    EXPECT_EQ(owner->id, two.member.id());
  }
  two.member.leave();
  two.owned.clear();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
  EXPECT_EQ(one.revoked.size(), 2u);
  EXPECT_GT(group().state().generation, state.generation);
}

// One of three leaves while another does not look: what that is to get goes to the third soon, and what it has stays with it.
void expect_takeover_beside_a_silent_member(const Store& store, const Group& group) {
  Consumer one(store, "g", {"t"});
  Consumer silent(store, "g", {"t"});
  Consumer leaver(store, "g", {"t"});
  const auto held = [&] { return one.partitions().size() + silent.partitions().size() + leaver.partitions().size(); };
  const auto fewest = [&] { return std::min({one.partitions().size(), silent.partitions().size(), leaver.partitions().size()}); };
  ASSERT_TRUE(until({&one, &silent, &leaver}, [&] { return held() == 6 && fewest() == 2; }));
  const auto its = silent.partitions();
  const auto ours = one.partitions();
  const auto is_its = [&](const std::string& name) { return its.contains(name); };
  leaver.member.leave();
  const auto left = Clock::now();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
  EXPECT_LT(Clock::now() - left, 1s);
  EXPECT_TRUE(one.revoked.empty());
  auto state = group.state();
  const auto is_silent = [&](const MemberInfo& member) { return member.id == silent.member.id(); };
  EXPECT_FALSE(std::find_if(state.members.begin(), state.members.end(), is_silent)->responds);
  EXPECT_EQ(std::find_if(state.members.begin(), state.members.end(), is_silent)->assigned.size(), 2u);

  // Nobody gives it more before it responds.
  Consumer another(store, "g", {"t"});
  ASSERT_TRUE(until({&one, &another}, [&] { return one.partitions().size() == 2 && another.partitions().size() == 2; }));
  another.member.leave();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
  ASSERT_TRUE(until({&one, &silent}, [&] { return one.partitions().size() == 3 && silent.partitions().size() == 3; }));
  EXPECT_TRUE(silent.revoked.empty());
  const auto now = silent.partitions();
  EXPECT_EQ(std::count_if(now.begin(), now.end(), is_its), 2);
  for (const auto& member : group.state().members) EXPECT_TRUE(member.responds);
}

TEST_F(GroupMemberTest, WhatASilentMemberIsToGetGoesToOneThatResponds) {
  make_topic({}, 6);
  expect_takeover_beside_a_silent_member(store_, group());
}

// What fails with whoever it is assigned to is not left lying: it is not passed from one to the other.
TEST_F(GroupMemberTest, FailedPartitionIsNotTakenOver) {
  const auto topic = make_topic({}, 2);
  for (int p = 0; p < 2; ++p) group().commit(store_, topic, p, Offset{0});
  Consumer one(store_, "g", {"t"});
  Consumer two(store_, "g", {"t"});
  for (int p = 0; p < 2; ++p) overwrite(group().directory() + "/offsets/t/" + std::to_string(p), "off");
  ASSERT_TRUE(until({&one, &two}, [&] { return one.failures.size() == 1 && two.failures.size() == 1; }));
  const auto generation = group().state().generation;
  const auto limit = Clock::now() + 900ms;
  until({&one, &two}, [&] { return Clock::now() > limit; });
  EXPECT_EQ(group().state().generation, generation);
  EXPECT_EQ(one.failures.size() + two.failures.size(), 2u);
}

TEST_F(GroupMemberTest, RevokedPartitionIsOursUntilReleased) {
  const auto topic = make_topic({}, 2);
  append(topic, 0, 9);
  append(topic, 1, 9);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
  Consumer two(store_, "g", {"t"});
  Rebalance change;
  while (change.revoked.empty()) change = one.member.poll();
  ASSERT_EQ(change.revoked.size(), 1u);
  const auto moved = change.revoked[0];
  two.step();
  EXPECT_EQ(two.member.awaited(), change.revoked);
  one.member.commit(moved, Offset{7});  // handing over, it may still commit
  const auto again = Clock::now() + 300ms;
  while (Clock::now() < again) EXPECT_TRUE(one.member.poll().revoked.empty());
  one.member.release(moved);
  ASSERT_TRUE(until({&two}, [&] { return two.partitions().size() == 1; }));
  EXPECT_EQ(two.owned[text_of(moved)]->offset, Offset{7});
  EXPECT_FALSE(one.member.still_owns(moved));
  EXPECT_THROW(one.member.commit(moved, Offset{8}), Error);
}

// For --reset latest: without it the end would be another one in the next run.
TEST_F(GroupMemberTest, SetsAStartWhereThereIsNoPosition) {
  const auto topic = make_topic({}, 2);
  append(topic, 0, 9);
  append(topic, 1, 9);
  group().commit(store_, topic, 1, Offset{4});
  for (const bool commits : {false, true}) {
    Consumer one(store_, "g", {"t"}, with_commits(commits));
    ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
    EXPECT_EQ(one.member.start_at({"t", 0}, Offset{commits ? 3 : 7}), Offset{7});
    EXPECT_EQ(group().position(store_, topic, 0)->offset, Offset{7});
    EXPECT_EQ(one.member.start_at({"t", 1}, Offset{9}), Offset{4});
    EXPECT_EQ(group().position(store_, topic, 1)->offset, Offset{4});
    one.member.release({"t", 0});
    EXPECT_EQ(code_of([&] { one.member.start_at({"t", 0}, Offset{8}); }), ErrorCode::fenced);
  }
}

// Whoever commits must be able to tell a lost partition from what passes.
TEST_F(GroupMemberTest, OnlyALostPartitionIsFenced) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  GroupMemberOptions options;
  options.lock_timeout = 10ms;
  Consumer one(store_, "g", {"t"}, options);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  one.member.commit({"t", 0}, Offset{3});
  const auto file = group().directory() + "/offsets/t/0";
  {
    const auto lock = os::FileLock::open(file + ".lock").lock();
    EXPECT_EQ(code_of([&] { one.member.commit({"t", 0}, Offset{4}); }), ErrorCode::busy);
  }
  fs::create_directory(file + ".tmp");
  EXPECT_EQ(code_of([&] { one.member.commit({"t", 0}, Offset{4}); }), ErrorCode::io);
  fs::remove(file + ".tmp");
  const auto whole = contents_of(file);
  overwrite(file, "off");
  EXPECT_EQ(code_of([&] { one.member.commit({"t", 0}, Offset{4}); }), ErrorCode::damaged);
  overwrite(file, whole);
  one.member.commit({"t", 0}, Offset{4});
  EXPECT_EQ(group().committed("t", 0)->offset, Offset{4});
}

TEST_F(GroupMemberTest, SaysWhoStandsInTheWay) {
  make_topic();
  Consumer one(store_, "g", {"t"}, with_assignor(Assignor::range));
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  EXPECT_TRUE(one.member.obstacles().empty());
  one.member.leave();

  ChildProcess child([&](Line& line) {
    const auto claim = os::FileLock::open(group().directory() + "/claims/t/0.lock").lock();
    line.send();
    line.receive();
    return 0;
  });
  ASSERT_TRUE(child.line().receive());
  Consumer two(store_, "g", {"t"});
  two.step();
  const auto limit = Clock::now() + 20ms;
  ASSERT_TRUE(until({&two}, [&] { return Clock::now() > limit; }));
  auto obstacles = two.member.obstacles();
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_EQ(obstacles[0].partition, (TopicPartition{"t", 0}));
  EXPECT_GE(obstacles[0].waited, 15ms);
  EXPECT_FALSE(obstacles[0].position_only);
  ASSERT_TRUE(obstacles[0].holder);
  EXPECT_EQ(obstacles[0].holder->pid, child.pid());
  EXPECT_NE(obstacles[0].message.find("t:0 is held by process " + std::to_string(child.pid())), std::string::npos);

  const auto path = group().directory() + "/offsets/t/0.lock";
  const auto lock = os::FileLock::open(path).lock();
  child.kill(SIGKILL);
  child.wait();
  const auto again = Clock::now() + 100ms;
  ASSERT_TRUE(until({&two}, [&] { return Clock::now() > again; }));
  obstacles = two.member.obstacles();
  ASSERT_EQ(obstacles.size(), 1u);
  EXPECT_TRUE(obstacles[0].position_only);
  EXPECT_EQ(obstacles[0].holder->pid, ::getpid());
  EXPECT_NE(obstacles[0].message.find(path), std::string::npos);
}

TEST_F(GroupMemberTest, FencedOnceTheFileNamesAnother) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  one.member.commit({"t", 0}, Offset{3});
  const auto file = group().directory() + "/offsets/t/0";
  auto text = contents_of(file);
  text.replace(text.find(one.member.id()), one.member.id().size(), "other");
  os::replace_file(file, text, false);
  try {
    one.member.commit({"t", 0}, Offset{5});
    FAIL() << "committed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::fenced) << error.what();
  }
  EXPECT_EQ(contents_of(file), text);
}

// In the child: joins, takes everything that it can until `count` partitions are its own, says so, and goes on as told.
int consume_in_child(const Store& store, std::size_t count, Line& line) {
  Consumer consumer(store, "g", {"t"});
  if (!until({&consumer}, [&] { return consumer.partitions().size() == count; })) return 1;
  consumer.member.commit({"t", 0}, Offset{4});
  line.send();
  line.receive();
  return 0;
}

TEST_F(GroupMemberTest, TakesOverFromAKilledProcessWithinASecond) {
  const auto topic = make_topic({}, 4);
  append(topic, 0, 9);
  ChildProcess child([&](Line& line) { return consume_in_child(store_, 4, line); });
  ASSERT_TRUE(child.line().receive());
  Consumer one(store_, "g", {"t"});
  one.step();
  EXPECT_EQ(one.member.awaited().size(), 2u);
  EXPECT_TRUE(one.partitions().empty());
  child.kill(SIGKILL);
  const auto killed = Clock::now();
  EXPECT_EQ(child.wait(), -SIGKILL);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
  EXPECT_LT(Clock::now() - killed, 1s);
  EXPECT_EQ(one.owned["t:0"]->offset, Offset{4});
  EXPECT_EQ(os::list_directory(group().directory() + "/members"), (std::vector<std::string>{one.member.id() + ".lock"}));
}

TEST_F(GroupMemberTest, StoppedProcessKeepsItsClaims) {
  const auto topic = make_topic({}, 4);
  append(topic, 0, 9);
  ChildProcess child([&](Line& line) { return consume_in_child(store_, 4, line); });
  ASSERT_TRUE(child.line().receive());
  child.kill(SIGSTOP);
  Consumer one(store_, "g", {"t"});
  const auto limit = Clock::now() + 600ms;  // it is looked for twice meanwhile
  until({&one}, [&] { return Clock::now() > limit; });
  EXPECT_TRUE(one.partitions().empty());
  EXPECT_EQ(one.member.awaited().size(), 2u);
  EXPECT_EQ(group().state().members.size(), 2u);
  const auto owner = group().owner("t", 0);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, child.pid());
  child.kill(SIGKILL);
  child.kill(SIGCONT);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
}

TEST_F(GroupMemberTest, ScriptsAreRefusedBesideAMemberThatCommits) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  const auto busy = [&](const std::function<void()>& action, const std::string& who) {
    try {
      action();
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::busy) << error.what();
      EXPECT_NE(std::string(error.what()).find(who), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("process " + std::to_string(::getpid()) + " on host "), std::string::npos)
          << error.what();
    }
  };
  for (const bool commits : {true, false}) {
    Consumer one(store_, "g", {"t"}, with_commits(commits));
    busy([&] { GroupChange(group()).reset(topic, 0, Offset{1}); }, one.member.id());
    ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
    if (commits) {
      busy([&] { group().commit(store_, topic, 0, Offset{2}); }, one.member.id());
    } else {
      group().commit(store_, topic, 0, Offset{2});
      EXPECT_EQ(group().committed("t", 0)->member, one.member.id());
    }
    busy([&] { GroupChange(group()).reset(topic, 0, Offset{1}); }, one.member.id());
    busy([&] { GroupChange(group()).remove_offset("t", 0); }, one.member.id());
    busy([&] { GroupChange(group()).remove_group(); }, one.member.id());
  }
  GroupChange(group()).reset(topic, 0, Offset{1});
  EXPECT_EQ(group().position(store_, topic, 0)->offset, Offset{1});
}

TEST_F(GroupMemberTest, TopicMadeAnewIsTakenAnewWithoutAPosition) {
  auto topic = make_topic({}, 2);
  append(topic, 0, 5);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
  one.member.commit({"t", 0}, Offset{5});
  store_.delete_topic(topic);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().empty(); }));
  EXPECT_EQ(one.revoked.size(), 2u);
  make_topic({}, 3);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 3; }));
  EXPECT_FALSE(one.owned["t:0"]);
  one.member.commit({"t", 0}, Offset{0});
  EXPECT_FALSE(one.notices.empty());
}

// What a member knows of a topic may be 250 ms old.
TEST_F(GroupMemberTest, AStaleViewOfTheTopicErasesNoPosition) {
  auto topic = make_topic({}, 2);
  append(topic, 0, 9);
  group().commit(store_, topic, 0, Offset{3});
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
  store_.delete_topic(topic);
  topic = make_topic({}, 2);
  append(topic, 0, 9);
  append(topic, 1, 9);
  Consumer two(store_, "g", {"t"});
  ASSERT_TRUE(until({&one, &two}, [&] { return !two.partitions().empty(); }));
  const auto partition = two.owned.begin()->first.back() - '0';
  two.member.commit({"t", partition}, Offset{5});
  two.member.leave();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2 && one.owned["t:" + std::to_string(partition)]; }));
  EXPECT_EQ(group().position(store_, topic, partition)->offset, Offset{5});
  for (const auto& notice : one.notices) {
    if (notice.find("has no position") == std::string::npos) continue;
    EXPECT_NE(notice.find("t:0 has no position: the topic was made anew since offset 3 was committed"), std::string::npos);
  }
}

TEST_F(GroupMemberTest, CommitsNothingIntoATopicMadeAnew) {
  auto topic = make_topic();
  append(topic, 0, 9);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  store_.delete_topic(topic);
  make_topic();
  const auto before = contents_of(group().directory() + "/offsets/t/0");
  one.member.commit({"t", 0}, Offset{5});
  EXPECT_EQ(one.member.start_at({"t", 0}, Offset{6}), Offset{6});
  EXPECT_EQ(contents_of(group().directory() + "/offsets/t/0"), before);
}

TEST_F(GroupMemberTest, DamagedCutsAreFoundWhenThePartitionIsTaken) {
  const auto topic = make_topic({}, 2);
  overwrite(partition_directory(topic) + "/cuts", "garbage\n");
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1 && !one.failures.empty(); }));
  EXPECT_NE(one.failures["t:0"].find("/cuts"), std::string::npos) << one.failures["t:0"];
}

// As often as every 10 ms at first, then every 250 ms.
TEST_F(GroupMemberTest, ALockedGroupIsNotLookedAtAllTheTime) {
  make_topic();
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  const auto lock = os::FileLock::open(group().directory() + "/group.lock").lock();
  os::remove_file(group().directory() + "/group.properties");
  int wakings = 0;
  const auto limit = Clock::now() + 600ms;
  while (Clock::now() < limit) {
    pollfd ready = {one.member.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 100);
    one.step();
    ++wakings;
  }
  EXPECT_LT(wakings, 100);
  EXPECT_EQ(one.partitions().size(), 1u);  // nobody can have given it to others
}

TEST_F(GroupMemberTest, LostRecordsPutThePositionBackWhereTheLogEnded) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  group().commit(store_, topic, 0, Offset{8});
  os::replace_file(partition_directory(topic) + "/cuts", "5 boot 2026-01-01T00:00:00.000Z\n", false);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  EXPECT_EQ(one.owned["t:0"]->state, GroupPosition::State::cut);
  EXPECT_EQ(one.owned["t:0"]->offset, Offset{5});
  one.member.commit({"t", 0}, Offset{6});
  EXPECT_EQ(group().position(store_, topic, 0)->offset, Offset{6});
}

TEST_F(GroupMemberTest, DamagedOffsetFileConcernsItsPartitionOnly) {
  const auto topic = make_topic({}, 3);
  for (int p = 0; p < 3; ++p) group().commit(store_, topic, p, Offset{0});
  const auto file = group().directory() + "/offsets/t/1";
  const auto whole = contents_of(file);
  overwrite(file, "off");
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2 && !one.failures.empty(); }));
  EXPECT_NE(one.failures["t:1"].find(file), std::string::npos) << one.failures["t:1"];
  EXPECT_TRUE(one.member.awaited().empty());
  overwrite(file, whole);
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 3; }));
}

TEST_F(GroupMemberTest, LostTableIsMadeAnewByThoseWhoLive) {
  make_topic({}, 4);
  Consumer one(store_, "g", {"t"});
  Consumer two(store_, "g", {"t"});
  const auto shared = [&] { return one.partitions().size() == 2 && two.partitions().size() == 2; };
  ASSERT_TRUE(until({&one, &two}, shared));
  const auto generation = group().state().generation;
  for (const auto* text : {"", "garbage"}) {
    os::replace_file(group().directory() + "/group.properties", text, false);
    const auto whole = [&] {
      try {
        return group().state().members.size() == 2 && shared();
      } catch (const Error&) {
        return false;
      }
    };
    ASSERT_TRUE(until({&one, &two}, whole));
    EXPECT_GT(group().state().generation, generation);
  }
}

// A table of which every line alone is possible must not fill the memory of those who read it.
TEST_F(GroupMemberTest, TableThatAssignsTwiceIsMadeAnew) {
  const auto topic = make_topic({}, 2);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 2; }));
  const auto path = group().directory() + "/group.properties";
  const auto whole = contents_of(path);
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& text : {with("assigned=t:0-1", "assigned=t:0-1,0-1"), with(topic.id + " 2", topic.id + " 2147483647"),
                           with("generation=", "generation=9223372036854775807#")}) {
    os::replace_file(path, text, false);
    EXPECT_EQ(code_of([&] { group().state(); }), ErrorCode::damaged);
    ASSERT_TRUE(until({&one}, [&] { return !code_of([&] { group().state(); }); }));
    EXPECT_EQ(group().state().members.at(0).assigned.size(), 2u);
  }
}

// git keeps no empty ones.
TEST_F(GroupMemberTest, MissingDirectoriesOfTheGroupAreMade) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  for (const auto* part : {"members", "claims", "offsets"}) fs::remove_all(group().directory() + "/" + part);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  one.member.commit({"t", 0}, Offset{3});
  one.member.leave();
  fs::remove_all(group().directory() + "/offsets");
  group().commit(store_, topic, 0, Offset{4});
}

TEST_F(GroupMemberTest, StrangersAmongTheMembersAreInNobodysWay) {
  make_topic();
  const auto members = group().directory() + "/members/";
  fs::create_directories(members + "foo.lock/inside");
  ASSERT_EQ(::mkfifo((members + "pipe.lock").c_str(), 0666), 0);
  os::replace_file(members + "README", "text", false);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  Consumer two(store_, "g", {"t"});
  two.member.leave();
  ASSERT_TRUE(until({&one}, [&] { return group().state().members.size() == 1; }));
  EXPECT_EQ(std::count_if(one.notices.begin(), one.notices.end(),
                          [](const auto& notice) { return notice.find("foo.lock") != std::string::npos; }),
            1);
  GroupChange(group()).require_no_owner("other");
  one.member.leave();

  // Nor where the table names one.
  os::replace_file(group().directory() + "/group.properties",
                   "assignor=sticky\ngeneration=1\nmember.foo.assigned=t:0\nmember.pipe.assigned=\ntopic.t=id 1\n", false);
  EXPECT_TRUE(group().state().members.empty());
  Consumer three(store_, "g", {"t"});
  ASSERT_TRUE(until({&three}, [&] { return three.partitions().size() == 1; }));
}

TEST_F(GroupMemberTest, HolderOfAClaimThatTheGroupDoesNotKnow) {
  const auto topic = make_topic();
  group().commit(store_, topic, 0, Offset{0});
  fs::create_directories(group().directory() + "/claims/t");
  const auto claim = os::FileLock::open(group().directory() + "/claims/t/0.lock").lock();
  const auto owner = group().owner("t", 0);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner->pid, ::getpid());
  EXPECT_EQ(owner->host, os::host_name());
  EXPECT_EQ(owner->since, no_timestamp);
  os::replace_file(group().directory() + "/offsets/.gitkeep", "", false);
  const auto held = locks(store_);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].kind, LockInfo::Kind::claim);
  EXPECT_EQ(held[0].host, os::host_name());
  EXPECT_EQ(held[0].since, no_timestamp);
}

std::size_t open_lock_files() {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    if (fs::read_symlink(entry.path(), gone).string().ends_with(".lock")) ++count;
  }
  return count;
}

// One for itself and one for each partition; see the header.
TEST_F(GroupMemberTest, DescriptorsOfAMember) {
  const auto topic = make_topic({}, 8);
  for (int p = 0; p < 8; ++p) append(topic, p, 2);
  const auto before = open_lock_files();
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 8; }));
  for (int p = 0; p < 8; ++p) one.member.commit({"t", p}, Offset{1});
  EXPECT_EQ(open_lock_files(), before + 9);
  for (int p = 0; p < 8; ++p) one.member.release({"t", p});
  one.member.leave();
  EXPECT_EQ(open_lock_files(), before);
}

TEST_F(GroupMemberTest, RefusesToJoin) {
  make_topic();
  Consumer one(store_, "g", {"t"});
  EXPECT_THROW(Consumer(store_, "g", {"t"}, with_assignor(Assignor::range)), Error);
  EXPECT_THROW(Consumer(store_, "g", {"none"}), Error);
  EXPECT_THROW(Consumer(store_, "g", {}), Error);
  EXPECT_EQ(group().state().members.size(), 1u);
  EXPECT_EQ(os::list_directory(group().directory() + "/members").size(), 1u);
}

TEST_F(GroupMemberTest, WhoCannotEnterTheTableLeavesNoFileBehind) {
  make_topic();
  const auto in_the_way = group().directory() + "/group.properties";
  fs::create_directory(in_the_way);
  EXPECT_THROW(Consumer(store_, "g", {"t"}), Error);
  EXPECT_TRUE(os::list_directory(group().directory() + "/members").empty());
  fs::remove(in_the_way);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
}

TEST_F(GroupMemberTest, MembersWithDifferentTopics) {
  make_topic({}, 2, "a");
  make_topic({}, 2, "b");
  Consumer one(store_, "g", {"a"});
  Consumer two(store_, "g", {"b", "a", "b"});
  ASSERT_TRUE(until({&one, &two}, [&] { return one.partitions() == all_of("a", 2) && two.partitions() == all_of("b", 2); }));
}

// Not by its descriptors' numbers: what it watches with must not be there.
std::size_t watchers_of_this_process() {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own
    if (fs::read_symlink(entry.path(), gone).string().find("inotify") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(GroupMemberTest, WatchesOnlyOnceSomebodyWaits) {
  make_topic({}, 4);
  const auto before = watchers_of_this_process();
  Consumer one(store_, "g", {"t"});
  while (one.partitions().size() < 4) one.step();
  EXPECT_EQ(watchers_of_this_process(), before);
  // By polling alone it learns within 250 ms that another one has joined.
  Consumer two(store_, "g", {"t"});
  const auto joined = Clock::now();
  while (one.revoked.empty() && Clock::now() < joined + long_time) one.step();
  EXPECT_LT(Clock::now() - joined, 500ms);

  two.member.leave();  // what happened before there was a descriptor is seen at once
  const auto descriptor = one.member.descriptor();
  EXPECT_EQ(one.member.descriptor(), descriptor);
  EXPECT_EQ(watchers_of_this_process(), before + 1);
  EXPECT_FALSE(one.member.settled());
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
}

// Members in threads of one process: what they have is theirs alone, and whoever takes a partition finds it where it was left.
class ThreadsOfMembers {
 public:
  explicit ThreadsOfMembers(int partitions) : owners_(static_cast<std::size_t>(partitions)), left_at_(owners_.size()) {}

  // Joins, takes and commits, leaves, so many times.
  void run(const Store& store, int rounds) {
    try {
      run_rounds(store, rounds);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }

  std::int64_t takes() const { return takes_; }

 private:
  void run_rounds(const Store& store, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      Consumer one(store, "g", {"t"});
      std::map<int, std::int64_t> mine;
      const auto limit = Clock::now() + long_time;
      while (mine.empty() && Clock::now() < limit) step(one, mine);
      for (int n = 0; n < 20; ++n) step(one, mine);
      EXPECT_FALSE(mine.empty());
      for (const auto& [partition, position] : mine) commit(one.member, partition, position);
      one.member.leave();
    }
  }

  void step(Consumer& one, std::map<int, std::int64_t>& mine) {
    pollfd ready = {one.member.descriptor(), POLLIN, 0};
    ::poll(&ready, 1, 10);
    const auto change = one.member.poll();
    for (const auto& revoked : change.revoked) {
      const auto position = mine.extract(revoked.partition);
      ASSERT_FALSE(position.empty());
      commit(one.member, revoked.partition, position.mapped());
      one.member.release(revoked);
    }
    EXPECT_TRUE(change.failed.empty());
    for (const auto& assigned : change.assigned) {
      const auto p = static_cast<std::size_t>(assigned.partition);
      ++takes_;
      EXPECT_EQ(owners_[p].fetch_add(1), 0) << p;
      const auto at = assigned.position ? assigned.position->offset.value : 0;
      EXPECT_EQ(at, left_at_[p]) << p;
      mine[assigned.partition] = at;
    }
  }

  void commit(GroupMember& member, int partition, std::int64_t position) {
    const auto p = static_cast<std::size_t>(partition);
    member.commit({"t", partition}, Offset{position + 1});
    left_at_[p] = position + 1;
    EXPECT_EQ(owners_[p].fetch_sub(1), 1) << p;
  }

  std::vector<std::atomic<int>> owners_;
  std::vector<std::atomic<std::int64_t>> left_at_;
  std::atomic<std::int64_t> takes_ = 0;
};

TEST_F(GroupMemberTest, ThreadsOfOneProcessAreMembersOfTheirOwn) {
  make_topic({}, 8);
  ThreadsOfMembers members(8);
  std::vector<std::thread> threads;
  const int rounds = scaled(5);
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { members.run(store_, rounds); });
  for (auto& thread : threads) thread.join();
  EXPECT_GE(members.takes(), 4 * rounds);
  EXPECT_TRUE(group().state().members.empty());
  EXPECT_TRUE(os::list_directory(group().directory() + "/members").empty());
}

// The rules for network file systems, tried on a local one. A lease that lapses: the kernel has given up our locks, and we are
// not told. Closing a descriptor of the file does the same to a process's locks.
class NetworkGroupMemberTest : public GroupMemberTest {
 protected:
  NetworkGroupMemberTest() {
    ::setenv("PARTLOG_FILESYSTEM", "network", 1);
    store_ = Store::open(store_.directory());
  }
  ~NetworkGroupMemberTest() override { ::unsetenv("PARTLOG_FILESYSTEM"); }

  static void lose_lock(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    ::close(descriptor);
  }
  std::string claim() const { return group().directory() + "/claims/t/0.lock"; }
  std::string member_file(const Consumer& one) const { return group().directory() + "/members/" + one.member.id() + ".lock"; }

  void expect_fenced(Consumer& one, Offset next, const std::string& why) {
    try {
      one.member.commit({"t", 0}, next);
      ADD_FAILURE() << "committed";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::fenced) << error.what();
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  }
};

// A client of a network file system remembers which names were missing until it opens their directory anew.
class RememberingSystem : public os::System {
 public:
  int open(const char* path, int flags, mode_t mode) override {
    if ((flags & O_CREAT) == 0 && missing_.contains(path)) {
      errno = ENOENT;
      return -1;
    }
    const int descriptor = System::open(path, flags, mode);
    if (descriptor < 0 && errno == ENOENT) missing_.insert(path);
    if (descriptor >= 0) std::erase_if(missing_, [&](const auto& name) { return name.starts_with(std::string(path) + "/"); });
    return descriptor;
  }

 private:
  std::set<std::string> missing_;
};

TEST_F(NetworkGroupMemberTest, PositionThatWasNotThereOnceIsLookedForAgain) {
  const auto topic = make_topic();
  append(topic, 0, 5);
  Group::open_or_create(store_, "g");
  ChildProcess other([&](Line& line) {
    line.receive();
    group().commit(store_, topic, 0, Offset{3});
    return 0;
  });
  RememberingSystem system;
  const os::ScopedSystem scoped(system);
  EXPECT_FALSE(group().committed("t", 0));
  other.line().send();
  ASSERT_EQ(other.wait(), 0);
  ASSERT_TRUE(group().committed("t", 0));
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  EXPECT_EQ(group().committed("t", 0)->offset, Offset{3});
}

TEST_F(NetworkGroupMemberTest, TwoShareAndNothingIsWatched) {
  ASSERT_TRUE(store_.on_network());
  make_topic({}, 4);
  const auto before = watchers_of_this_process();
  Consumer one(store_, "g", {"t"});
  Consumer two(store_, "g", {"t"});
  EXPECT_NE(one.member.descriptor(), two.member.descriptor());
  EXPECT_EQ(watchers_of_this_process(), before);
  ASSERT_TRUE(until({&one, &two}, [&] { return one.partitions().size() == 2 && two.partitions().size() == 2; }));
  two.member.leave();
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 4; }));
}

TEST_F(NetworkGroupMemberTest, WhatASilentMemberIsToGetGoesToOneThatResponds) {
  make_topic({}, 6);
  expect_takeover_beside_a_silent_member(store_, group());
}

TEST_F(NetworkGroupMemberTest, ClaimThatNobodyTookMeanwhileIsStillOurs) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  lose_lock(claim());
  EXPECT_TRUE(one.member.still_owns({"t", 0}));
  one.member.commit({"t", 0}, Offset{3});
  EXPECT_EQ(group().committed("t", 0)->offset, Offset{3});
}

// Another host took the claim, but has not come to write itself into the offset file.
TEST_F(NetworkGroupMemberTest, LosesThePartitionWithTheClaim) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  ChildProcess other([&](Line& line) {
    line.receive();
    const auto guard = os::FileLock::open(claim()).try_lock();
    line.send(guard ? 'y' : 'n');
    line.receive();
    return 0;
  });
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  one.member.commit({"t", 0}, Offset{3});
  lose_lock(claim());
  other.line().send();
  ASSERT_EQ(other.line().receive(), 'y');
  EXPECT_FALSE(one.member.still_owns({"t", 0}));
  expect_fenced(one, Offset{5}, "its claim is not ours");
  EXPECT_EQ(group().committed("t", 0)->offset, Offset{3});
}

// All is lost, and another host's member takes over, goes on, and leaves again. We come back, under another id.
TEST_F(NetworkGroupMemberTest, ComesBackAsAnotherMember) {
  const auto topic = make_topic();
  append(topic, 0, 9);
  ChildProcess other([&](Line& line) {
    line.receive();
    Consumer two(store_, "g", {"t"});
    if (!until({&two}, [&] { return two.partitions().size() == 1; })) return 1;
    if (two.owned["t:0"]->offset != Offset{3}) return 2;
    two.member.commit({"t", 0}, Offset{6});
    two.member.leave();
    line.send();
    line.receive();
    return 0;
  });
  Consumer one(store_, "g", {"t"});
  ASSERT_TRUE(until({&one}, [&] { return one.partitions().size() == 1; }));
  one.member.commit({"t", 0}, Offset{3});
  const auto id = one.member.id();
  lose_lock(member_file(one));
  lose_lock(claim());
  other.line().send();
  ASSERT_TRUE(other.line().receive());
  EXPECT_FALSE(fs::exists(member_file(one)));
  // The claim is free again and given to us when we ask; the offset file tells that another one was there.
  EXPECT_TRUE(one.member.still_owns({"t", 0}));
  expect_fenced(one, Offset{5}, "another member's");

  ASSERT_TRUE(until({&one}, [&] { return !one.revoked.empty() && one.partitions().size() == 1; }));
  EXPECT_NE(one.member.id(), id);
  EXPECT_EQ(one.owned["t:0"]->offset, Offset{6});
  one.member.commit({"t", 0}, Offset{7});
  EXPECT_EQ(group().committed("t", 0)->member, one.member.id());
  const auto state = group().state();
  ASSERT_EQ(state.members.size(), 1u);
  EXPECT_EQ(state.members[0].id, one.member.id());
  EXPECT_EQ(os::list_directory(group().directory() + "/members"), (std::vector<std::string>{one.member.id() + ".lock"}));
}

}  // namespace
}  // namespace partlog::test

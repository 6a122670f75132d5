// Members of a group: who gets which partitions, takeover, fencing.
#include "partlog/group_member.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <set>

#include "os/directory.h"
#include "os/file_lock.h"
#include "support/child_process.h"
#include "support/log_fixture.h"

namespace partlog::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto long_time = 30s;  // far longer than any of these tests may take

std::string text_of(const TopicPartition& p) { return p.topic + ":" + std::to_string(p.partition); }

// A member that does what a consumer does: gives up what is revoked, at once.
struct Consumer {
  Consumer(const Store& store, const std::string& group, const std::vector<std::string>& topics, GroupMemberOptions options = {})
      : member(store, Group::open_or_create(store, group), topics, with_notice(std::move(options))) {}

  GroupMemberOptions with_notice(GroupMemberOptions options) {
    options.notice = [this](const std::string& line) { notices.push_back(line); };
    return options;
  }

  void step() {
    for (auto& [partition, position] : take(member.poll())) owned[partition] = position;
  }
  using Positions = std::map<std::string, std::optional<GroupPosition>>;
  Positions take(const Rebalance& rebalance) {
    for (const auto& partition : rebalance.revoked) {
      EXPECT_EQ(owned.erase(text_of(partition)), 1u) << text_of(partition);
      revoked.push_back(text_of(partition));
      member.release(partition);
    }
    for (const auto& failure : rebalance.failed) failures[text_of(failure.partition)] = failure.error.what();
    Positions assigned;
    for (const auto& a : rebalance.assigned) assigned[text_of({a.topic.name, a.partition})] = a.position;
    return assigned;
  }

  std::set<std::string> partitions() const {
    std::set<std::string> names;
    for (const auto& [name, position] : owned) names.insert(name);
    return names;
  }

  // Declared before the member, whose options refer to it.
  std::vector<std::string> notices;
  std::vector<std::string> revoked;
  Positions owned;
  std::map<std::string, std::string> failures;
  GroupMember member;
};

// Lets all of them poll, waiting on their descriptors, until it is so. False after a long time.
bool until(const std::vector<Consumer*>& consumers, const std::function<bool()>& reached) {
  const auto limit = Clock::now() + long_time;
  for (;;) {
    for (auto* consumer : consumers) consumer->step();
    if (reached()) return true;
    if (Clock::now() > limit) return false;
    std::vector<pollfd> descriptors;
    for (auto* consumer : consumers) descriptors.push_back({consumer->member.descriptor(), POLLIN, 0});
    ::poll(descriptors.data(), descriptors.size(), 1000);
  }
}

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

std::set<std::string> all_of(const std::string& topic, int partitions) {
  std::set<std::string> names;
  for (int p = 0; p < partitions; ++p) names.insert(topic + ":" + std::to_string(p));
  return names;
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

TEST_F(GroupMemberTest, RefusesToJoin) {
  make_topic();
  Consumer one(store_, "g", {"t"});
  EXPECT_THROW(Consumer(store_, "g", {"t"}, with_assignor(Assignor::range)), Error);
  EXPECT_THROW(Consumer(store_, "g", {"none"}), Error);
  EXPECT_THROW(Consumer(store_, "g", {}), Error);
  EXPECT_EQ(group().state().members.size(), 1u);
  EXPECT_EQ(os::list_directory(group().directory() + "/members").size(), 1u);
}

TEST_F(GroupMemberTest, MembersWithDifferentTopics) {
  make_topic({}, 2, "a");
  make_topic({}, 2, "b");
  Consumer one(store_, "g", {"a"});
  Consumer two(store_, "g", {"b", "a", "b"});
  ASSERT_TRUE(until({&one, &two}, [&] { return one.partitions() == all_of("a", 2) && two.partitions() == all_of("b", 2); }));
}

}  // namespace
}  // namespace partlog::test

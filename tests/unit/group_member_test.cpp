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

}  // namespace
}  // namespace partlog::test

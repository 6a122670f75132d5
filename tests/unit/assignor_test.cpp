// Assignors against the examples of Kafka's documentation, and the sticky one against what it promises, for random groups.
#include "group/assignor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "support/log_fixture.h"

namespace partlog::group {
namespace {

using Partitions = std::vector<TopicPartition>;

std::vector<Subscription> alike(int members, const std::vector<std::string>& topics) {
  std::vector<Subscription> all;
  for (int m = 0; m < members; ++m) all.push_back({"C" + std::to_string(m), topics, {}});
  return all;
}

TEST(Assignor, RangeGivesEachTopicInRanges) {
  const auto result = assign(Assignor::range, alike(2, {"t0", "t1"}), {{"t0", 3}, {"t1", 3}});
  EXPECT_EQ(result.at("C0"), (Partitions{{"t0", 0}, {"t0", 1}, {"t1", 0}, {"t1", 1}}));
  EXPECT_EQ(result.at("C1"), (Partitions{{"t0", 2}, {"t1", 2}}));
}

TEST(Assignor, RangeWithDifferentTopicsAndTooManyMembers) {
  const auto result =
      assign(Assignor::range, {{"b", {"t0"}, {}}, {"a", {"t1", "t0"}, {}}, {"c", {"t0"}, {}}, {"d", {"none"}, {}}},
             {{"t0", 2}, {"t1", 1}});
  EXPECT_EQ(result.at("a"), (Partitions{{"t0", 0}, {"t1", 0}}));
  EXPECT_EQ(result.at("b"), (Partitions{{"t0", 1}}));
  EXPECT_TRUE(result.at("c").empty());
  EXPECT_TRUE(result.at("d").empty());
}

TEST(Assignor, RoundRobinGivesInTurn) {
  const auto result = assign(Assignor::roundrobin, alike(2, {"t0", "t1"}), {{"t0", 3}, {"t1", 3}});
  EXPECT_EQ(result.at("C0"), (Partitions{{"t0", 0}, {"t0", 2}, {"t1", 1}}));
  EXPECT_EQ(result.at("C1"), (Partitions{{"t0", 1}, {"t1", 0}, {"t1", 2}}));
}

TEST(Assignor, RoundRobinPassesOverThoseThatDoNotSubscribe) {
  const auto result = assign(Assignor::roundrobin, {{"C0", {"t0"}, {}}, {"C1", {"t0", "t1"}, {}}, {"C2", {"t0", "t1", "t2"}, {}}},
                             {{"t0", 1}, {"t1", 2}, {"t2", 3}});
  EXPECT_EQ(result.at("C0"), (Partitions{{"t0", 0}}));
  EXPECT_EQ(result.at("C1"), (Partitions{{"t1", 0}}));
  EXPECT_EQ(result.at("C2"), (Partitions{{"t1", 1}, {"t2", 0}, {"t2", 1}, {"t2", 2}}));
}

// The example of KIP-54: what round robin would give is uneven, and a member that goes would move everything.
TEST(Assignor, StickyMovesOnlyWhatTheDeadHad) {
  auto members = alike(3, {"t0", "t1", "t2", "t3"});
  const PartitionCounts counts{{"t0", 2}, {"t1", 2}, {"t2", 2}, {"t3", 2}};
  const auto before = assign(Assignor::sticky, members, counts);
  members.erase(members.begin() + 1);
  for (auto& member : members) member.owned = before.at(member.member);
  const auto after = assign(Assignor::sticky, members, counts);
  for (const auto& member : members) {
    EXPECT_EQ(after.at(member.member).size(), 4u);
    EXPECT_TRUE(
        std::includes(after.at(member.member).begin(), after.at(member.member).end(), member.owned.begin(), member.owned.end()));
  }
}

// "t" can only go to A, so A gives what it has of "u" to others, along a chain.
TEST(Assignor, StickyBalancesAlongAChain) {
  const auto result = assign(Assignor::sticky,
                             {{"A", {"t", "u"}, {{"u", 0}, {"u", 1}}}, {"B", {"u", "v"}, {{"v", 0}, {"v", 1}}}, {"C", {"v"}, {}}},
                             {{"t", 2}, {"u", 2}, {"v", 2}});
  for (const auto* member : {"A", "B", "C"}) EXPECT_EQ(result.at(member).size(), 2u) << member;
  EXPECT_EQ(result.at("A"), (Partitions{{"t", 0}, {"t", 1}}));
}

class Group {
 public:
  explicit Group(std::uint64_t seed) : random_(seed) {
    for (int t = number(1, 5); t > 0; --t) counts["t" + std::to_string(t)] = number(0, 20);
    same_ = number(0, 1) == 1;
    for (int m = number(1, 9); m > 0; --m) join();
  }

  bool alike() const { return same_; }
  int number(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }

  void join() {
    Subscription member{"m" + std::to_string(number(0, 1'000'000'000)), {}, {}};
    for (const auto& [topic, count] : counts) {
      if (same_ || number(0, 2) > 0) member.topics.push_back(topic);
    }
    members.push_back(member);
  }
  void leave() { members.erase(members.begin() + number(0, static_cast<int>(members.size()) - 1)); }
  void adopt(const Assignment& assignment) {
    for (auto& member : members) member.owned = assignment.at(member.member);
  }

  std::vector<Subscription> members;
  PartitionCounts counts;

 private:
  std::mt19937_64 random_;
  bool same_ = false;
};

bool wants(const Subscription& member, const std::string& topic) {
  return std::find(member.topics.begin(), member.topics.end(), topic) != member.topics.end();
}

// Every partition that somebody wants has exactly one owner, who wants it.
void expect_valid(const Group& group, const Assignment& result) {
  std::set<TopicPartition> given;
  for (const auto& member : group.members) {
    for (const auto& partition : result.at(member.member)) {
      EXPECT_TRUE(wants(member, partition.topic));
      EXPECT_TRUE(given.insert(partition).second);
    }
  }
  std::size_t wanted = 0;
  for (const auto& [topic, count] : group.counts) {
    const bool any = std::any_of(group.members.begin(), group.members.end(), [&](const auto& m) { return wants(m, topic); });
    wanted += any ? static_cast<std::size_t>(count) : 0;
  }
  EXPECT_EQ(given.size(), wanted);
  EXPECT_EQ(result.size(), group.members.size());
}

// Nobody has two more than another one who could take one of them.
void expect_balanced(const Group& group, const Assignment& result) {
  for (const auto& rich : group.members) {
    const auto& has = result.at(rich.member);
    for (const auto& poor : group.members) {
      if (has.size() < result.at(poor.member).size() + 2) continue;
      for (const auto& partition : has) EXPECT_FALSE(wants(poor, partition.topic)) << rich.member << " " << poor.member;
    }
  }
}

std::size_t kept(const Group& group, const Assignment& result) {
  std::size_t count = 0;
  for (const auto& member : group.members) {
    const auto& now = result.at(member.member);
    count += static_cast<std::size_t>(std::count_if(member.owned.begin(), member.owned.end(), [&](const auto& partition) {
      return std::find(now.begin(), now.end(), partition) != now.end();
    }));
  }
  return count;
}

// With subscriptions all alike: everybody keeps what they had up to their even share, and some one more.
std::size_t most_to_keep(const Group& group) {
  std::size_t total = 0;
  for (const auto& [topic, count] : group.counts) total += static_cast<std::size_t>(count);
  const auto each = total / group.members.size();
  auto one_more = total % group.members.size();
  std::size_t result = 0;
  for (const auto& member : group.members) {
    result += std::min(member.owned.size(), each);
    if (member.owned.size() <= each || one_more == 0) continue;
    ++result;
    --one_more;
  }
  return result;
}

TEST(Assignor, StickyIsValidBalancedAndMovesAsLittleAsPossible) {
  const auto seed = test::random_seed();
  for (int round = 0; round < test::scaled(1000) && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Group group(seed + static_cast<std::uint64_t>(round));
    for (int step = 0; step < 6 && !testing::Test::HasFailure(); ++step) {
      const auto result = assign(Assignor::sticky, group.members, group.counts);
      expect_valid(group, result);
      expect_balanced(group, result);
      if (group.alike()) {
        EXPECT_EQ(kept(group, result), most_to_keep(group));
      }
      group.adopt(result);
      EXPECT_EQ(assign(Assignor::sticky, group.members, group.counts), result) << "moved without need";
      group.number(0, 1) == 1 || group.members.size() == 1 ? group.join() : group.leave();
    }
  }
}

TEST(Assignor, OthersAreValidWhateverTheSubscriptions) {
  const auto seed = test::random_seed();
  for (int round = 0; round < test::scaled(500) && !testing::Test::HasFailure(); ++round) {
    const Group group(seed + static_cast<std::uint64_t>(round));
    for (const auto assignor : {Assignor::range, Assignor::roundrobin}) {
      const auto result = assign(assignor, group.members, group.counts);
      expect_valid(group, result);
      if (assignor == Assignor::roundrobin && group.alike()) expect_balanced(group, result);
    }
  }
}

TEST(Assignor, NobodyAndNothing) {
  for (const auto assignor : {Assignor::range, Assignor::roundrobin, Assignor::sticky}) {
    EXPECT_TRUE(assign(assignor, {}, {{"t", 3}}).empty());
    EXPECT_TRUE(assign(assignor, alike(1, {"t"}), {}).at("C0").empty());
  }
}

}  // namespace
}  // namespace partlog::group

// Members of a group as the tests use them.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "partlog/group.h"
#include "partlog/group_member.h"
#include "partlog/store.h"

namespace partlog::test {

inline std::string text_of(const TopicPartition& p) { return p.topic + ":" + std::to_string(p.partition); }

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

// Lets all of them poll, waiting on their descriptors, until it is so. False after a time far longer than any test may take.
inline bool until(const std::vector<Consumer*>& consumers, const std::function<bool()>& reached) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  for (;;) {
    for (auto* consumer : consumers) consumer->step();
    if (reached()) return true;
    if (std::chrono::steady_clock::now() > limit) return false;
    std::vector<pollfd> descriptors;
    for (auto* consumer : consumers) descriptors.push_back({consumer->member.descriptor(), POLLIN, 0});
    ::poll(descriptors.data(), descriptors.size(), 1000);
  }
}

inline std::set<std::string> all_of(const std::string& topic, int partitions) {
  std::set<std::string> names;
  for (int p = 0; p < partitions; ++p) names.insert(topic + ":" + std::to_string(p));
  return names;
}

}  // namespace partlog::test

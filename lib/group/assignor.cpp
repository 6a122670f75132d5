#include "group/assignor.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>

#include "base/check.h"

namespace partlog::group {

namespace {

using Members = std::vector<Subscription>;  // sorted by id, their topics sorted

bool subscribes(const Subscription& member, const std::string& topic) {
  return std::binary_search(member.topics.begin(), member.topics.end(), topic);
}

int count_of(const PartitionCounts& counts, const std::string& topic) {
  const auto found = counts.find(topic);
  return found == counts.end() ? 0 : found->second;
}

std::set<std::string> topics_of(const Members& members) {
  std::set<std::string> topics;
  for (const auto& member : members) topics.insert(member.topics.begin(), member.topics.end());
  return topics;
}

std::vector<TopicPartition> partitions_of(const Members& members, const PartitionCounts& counts, const Withheld& withheld) {
  std::vector<TopicPartition> all;
  for (const auto& topic : topics_of(members)) {
    for (int p = 0; p < count_of(counts, topic); ++p) {
      if (!withheld.contains({topic, p})) all.push_back({topic, p});
    }
  }
  return all;
}

Assignment range(const Members& members, const PartitionCounts& counts, const Withheld& withheld) {
  Assignment result;
  for (const auto& topic : topics_of(members)) {
    std::vector<const Subscription*> takers;
    for (const auto& member : members) {
      if (subscribes(member, topic)) takers.push_back(&member);
    }
    const int size = static_cast<int>(takers.size());
    const int each = count_of(counts, topic) / size;
    const int one_more = count_of(counts, topic) % size;
    int next = 0;
    for (int i = 0; i < size; ++i) {
      const int end = next + each + (i < one_more ? 1 : 0);
      for (; next < end; ++next) {
        if (!withheld.contains({topic, next})) result[takers[static_cast<std::size_t>(i)]->member].push_back({topic, next});
      }
    }
  }
  return result;
}

Assignment round_robin(const Members& members, const PartitionCounts& counts, const Withheld& withheld) {
  Assignment result;
  std::size_t turn = 0;
  for (auto& partition : partitions_of(members, counts, withheld)) {
    while (!subscribes(members[turn], partition.topic)) turn = (turn + 1) % members.size();
    result[members[turn].member].push_back(std::move(partition));
    turn = (turn + 1) % members.size();
  }
  return result;
}

// A member is its place in the order of ids.
class Sticky {
 public:
  Sticky(const Members& members, const PartitionCounts& counts, const Withheld& withheld)
      : members_(members), holdings_(members.size()) {
    const bool alike = std::all_of(members.begin(), members.end(), [&](const auto& m) { return m.topics == members[0].topics; });
    auto open = partitions_of(members, counts, withheld);
    keep_owned(open);
    if (alike) cap(open);
    give(open, alike);
    if (!alike) balance();
  }

  Assignment result() const {
    Assignment result;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      auto& partitions = result[members_[m].member];
      for (const auto& [topic, held] : holdings_[m].by_topic) {
        for (const int p : held) partitions.push_back({topic, p});
      }
    }
    return result;
  }

 private:
  struct Holdings {
    std::map<std::string, std::set<int>> by_topic;
    std::size_t count = 0;
    void add(const TopicPartition& partition) { count += by_topic[partition.topic].insert(partition.partition).second ? 1 : 0; }
    void remove(const TopicPartition& partition) { count -= by_topic[partition.topic].erase(partition.partition); }
  };

  bool owned_before(std::size_t member, const TopicPartition& partition) const {
    const auto& owned = members_[member].owned;
    return std::binary_search(owned.begin(), owned.end(), partition);
  }

  // Everybody keeps what they had, as far as it is there and they still want it. `open` is left with the rest.
  void keep_owned(std::vector<TopicPartition>& open) {
    std::set<TopicPartition> rest(open.begin(), open.end());
    for (std::size_t m = 0; m < members_.size(); ++m) {
      for (const auto& partition : members_[m].owned) {
        if (subscribes(members_[m], partition.topic) && rest.erase(partition) > 0) holdings_[m].add(partition);
      }
    }
    open.assign(rest.begin(), rest.end());
  }

  // All subscriptions being alike, nobody needs to keep more than their even share, and as many as the division leaves over may
  // keep one more.
  void cap(std::vector<TopicPartition>& open) {
    std::size_t total = open.size();
    for (const auto& holdings : holdings_) total += holdings.count;
    const std::size_t each = total / members_.size();
    std::size_t one_more = total % members_.size();
    for (auto& holdings : holdings_) {
      std::size_t most = each;
      if (holdings.count > each && one_more > 0) {
        ++most;
        --one_more;
      }
      while (holdings.count > most) {
        const auto last = std::find_if(holdings.by_topic.rbegin(), holdings.by_topic.rend(),
                                       [](const auto& held) { return !held.second.empty(); });
        open.push_back({last->first, *last->second.rbegin()});
        holdings.remove(open.back());
      }
    }
    std::sort(open.begin(), open.end());
  }

  // Each to whoever has least; those that few may have go first.
  void give(std::vector<TopicPartition>& open, bool alike) {
    if (alike) {
      std::set<std::pair<std::size_t, std::size_t>> by_count;
      for (std::size_t m = 0; m < members_.size(); ++m) by_count.emplace(holdings_[m].count, m);
      for (const auto& partition : open) {
        const auto m = by_count.extract(by_count.begin()).value().second;
        holdings_[m].add(partition);
        by_count.emplace(holdings_[m].count, m);
      }
      return;
    }
    std::map<std::string, std::vector<std::size_t>> takers;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      for (const auto& topic : members_[m].topics) takers[topic].push_back(m);
    }
    std::stable_sort(open.begin(), open.end(),
                     [&](const auto& a, const auto& b) { return takers[a.topic].size() < takers[b.topic].size(); });
    for (const auto& partition : open) {
      const auto& among = takers[partition.topic];
      const auto least =
          *std::min_element(among.begin(), among.end(), [&](auto a, auto b) { return holdings_[a].count < holdings_[b].count; });
      holdings_[least].add(partition);
    }
  }

  // Moves partitions, directly or along a chain of members, from one that has at least two more than the last of the chain, until
  // there is none such.
  void balance() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto m : heaviest_first()) {
        if ((moved = relieve(m))) break;
      }
    }
  }

  std::vector<std::size_t> heaviest_first() const {
    std::vector<std::size_t> order(members_.size());
    for (std::size_t m = 0; m < order.size(); ++m) order[m] = m;
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return holdings_[a].count > holdings_[b].count; });
    return order;
  }

  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  bool relieve(std::size_t from) {
    std::vector<std::size_t> giver(members_.size(), none);
    std::vector<std::size_t> reached{from};
    giver[from] = from;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      for (std::size_t m = 0; m < members_.size(); ++m) {
        if (giver[m] != none || !movable(reached[i], m)) continue;
        giver[m] = reached[i];
        reached.push_back(m);
      }
    }
    // The nearest of those with least.
    const auto to = *std::min_element(reached.begin(), reached.end(),
                                      [&](auto a, auto b) { return holdings_[a].count < holdings_[b].count; });
    if (holdings_[to].count + 2 > holdings_[from].count) return false;
    for (auto m = to; m != from; m = giver[m]) {
      const auto partition = *movable(giver[m], m);
      holdings_[giver[m]].remove(partition);
      holdings_[m].add(partition);
    }
    return true;
  }

  // The partition whose move from one to the other costs least: back to where it was, else one that is new to the giver.
  std::optional<TopicPartition> movable(std::size_t from, std::size_t to) const {
    std::optional<TopicPartition> best;
    int best_cost = std::numeric_limits<int>::max();
    for (const auto& topic : members_[to].topics) {
      const auto held = holdings_[from].by_topic.find(topic);
      if (held == holdings_[from].by_topic.end()) continue;
      for (const int p : held->second) {
        const TopicPartition partition{topic, p};
        const int cost = owned_before(to, partition) ? 0 : owned_before(from, partition) ? 2 : 1;
        if (cost >= best_cost) continue;
        best = partition;
        best_cost = cost;
        if (cost == 0) return best;
      }
    }
    return best;
  }

  const Members& members_;
  std::vector<Holdings> holdings_;
};

}  // namespace

Assignment assign(Assignor assignor, std::vector<Subscription> members, const PartitionCounts& counts, const Withheld& withheld) {
  if (members.empty()) return {};
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.member < b.member; });
  for (auto& member : members) {
    std::sort(member.topics.begin(), member.topics.end());
    member.topics.erase(std::unique(member.topics.begin(), member.topics.end()), member.topics.end());
    std::sort(member.owned.begin(), member.owned.end());
  }
  auto result = assignor == Assignor::range        ? range(members, counts, withheld)
                : assignor == Assignor::roundrobin ? round_robin(members, counts, withheld)
                                                   : Sticky(members, counts, withheld).result();
  for (const auto& member : members) result[member.member];
  return result;
}

std::string_view name_of(Assignor assignor) {
  switch (assignor) {
    case Assignor::range:
      return "range";
    case Assignor::roundrobin:
      return "roundrobin";
    case Assignor::sticky:
      return "sticky";
  }
  PARTLOG_CHECK(false);
}

}  // namespace partlog::group

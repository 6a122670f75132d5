// `partlog describe-group`
#include <map>
#include <set>

#include "group_commands.h"
#include "group_standing.h"
#include "table.h"

namespace partlog::cmd {
namespace {

class DescribeGroup : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "group", 1);
    options.flag("--members", members_, "the live members, and what each has");
    style_.declare(options);
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    TopicCache topics(store);
    Table table(members_ ? std::vector<std::string>{"group", "member", "host", "pid", "since", "generation", "assignor",
                                                    "commits", "topics", "partitions"}
                         : std::vector<std::string>{"group", "topic", "partition", "committed", "start_offset", "end_offset",
                                                    "lag", "state", "member", "host", "pid"});
    for (const auto& name : names_) {
      try {
        Group group = Group::open(store, name);
        if (members_) {
          add_members(group, table);
        } else {
          add_partitions(store, topics, group, table);
        }
      } catch (const Error& error) {
        fail({name}, error, table);
      }
    }
    table.print(style_);
    return outcome_.status();
  }

 private:
  using Owners = std::map<TopicPartition, MemberInfo>;

  void fail(std::vector<Cell> first_cells, const Error& error, Table& table) {
    table.add_failed(std::move(first_cells), error.what());
    outcome_.fail(error);
  }

  // Who has what assigned. Without it the positions can still be shown.
  Owners assigned_to(const Group& group) {
    Owners owners;
    try {
      for (const auto& member : group.state().members) {
        for (const auto& partition : member.assigned) owners.emplace(partition, member);
      }
    } catch (const Error& error) {
      outcome_.fail(error);
    }
    return owners;
  }

  void add_partitions(const Store& store, TopicCache& topics, const Group& group, Table& table) {
    Owners assigned = assigned_to(group);
    std::set<TopicPartition> partitions;
    std::vector<FailedTopic> failed;
    for (auto& partition : partitions_of(group, topics, failed)) partitions.insert(std::move(partition));
    for (const auto& [topic, error] : failed) fail({group.name(), topic}, error, table);
    for (const auto& [partition, member] : assigned) partitions.insert(partition);
    for (const auto& partition : partitions) {
      std::vector<Cell> row = {group.name(), partition.topic, std::int64_t{partition.partition}};
      try {
        Standing now = standing(store, group, topics.find(partition.topic), partition);
        for (const Cell& cell : {offset_cell(now.committed), offset_cell(now.start), offset_cell(now.end),
                                 now.lag ? Cell(*now.lag) : Cell(), Cell(std::string(now.state))}) {
          row.push_back(cell);
        }
        add_owner(row, owner(group, partition, assigned));
        table.add(std::move(row));
      } catch (const Error& error) {
        row.resize(3);
        fail(std::move(row), error, table);
      }
    }
  }

  // Who has the claim; else, while the partition is being handed over, who is to have it.
  static std::optional<MemberInfo> owner(const Group& group, const TopicPartition& partition, const Owners& assigned) {
    if (assigned.empty()) return std::nullopt;
    if (auto owner = group.owner(partition.topic, partition.partition)) return owner;
    auto found = assigned.find(partition);
    return found == assigned.end() ? std::nullopt : std::optional(found->second);
  }

  static Cell offset_cell(std::optional<Offset> offset) { return offset ? Cell(offset->value) : Cell(); }
  static Cell text_cell(const std::string& text) { return text.empty() ? Cell() : Cell(text); }
  static Cell pid_cell(int pid) { return pid == 0 ? Cell() : Cell(std::int64_t{pid}); }

  static void add_owner(std::vector<Cell>& row, const std::optional<MemberInfo>& owner) {
    row.push_back(owner ? text_cell(owner->id) : Cell());
    row.push_back(owner ? text_cell(owner->host) : Cell());
    row.push_back(owner ? pid_cell(owner->pid) : Cell());
  }

  static void add_members(const Group& group, Table& table) {
    GroupState state = group.state();
    for (const auto& member : state.members) {
      std::string topics;
      for (const auto& topic : member.topics) topics += (topics.empty() ? "" : ",") + topic;
      table.add({group.name(), member.id, text_cell(member.host), pid_cell(member.pid), time_cell(member.since), state.generation,
                 text_cell(state.assignor), member.commits, text_cell(topics), text_cell(addresses(member.assigned))});
    }
  }

  // `orders:0,2 payments:1`
  static std::string addresses(const std::vector<TopicPartition>& partitions) {
    std::string text;
    const std::string* topic = nullptr;
    for (const auto& partition : partitions) {
      bool same = topic != nullptr && *topic == partition.topic;
      text += same ? "," : (text.empty() ? "" : " ") + partition.topic + ':';
      text += std::to_string(partition.partition);
      topic = &partition.topic;
    }
    return text;
  }

  std::vector<std::string> names_;
  bool members_ = false;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry describe_group_command = {"describe-group", "GROUP...", "list where groups stand, and who reads for them",
                                             make_command<DescribeGroup>};

}  // namespace partlog::cmd

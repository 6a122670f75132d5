// `partlog list-groups`
#include "group_commands.h"
#include "table.h"

namespace partlog::cmd {
namespace {

class ListGroups : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(none_, "operand", 0, 0);
    style_.declare(options);
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    Table table({"group", "members", "partitions"});
    TopicCache topics(store);
    Outcome outcome;
    for (const auto& name : Group::names(store)) {
      try {
        if (auto group = find_group(store, name)) add(*group, topics, table);
      } catch (const Error& error) {
        table.add_failed({name}, error.what());
        outcome.fail(error);
      }
    }
    table.print(style_);
    return outcome.status();
  }

 private:
  static void add(const Group& group, TopicCache& topics, Table& table) {
    auto members = static_cast<std::int64_t>(group.state().members.size());
    std::vector<FailedTopic> failed;
    auto partitions = static_cast<std::int64_t>(partitions_of(group, topics, failed).size());
    if (!failed.empty()) throw Error(failed.front().error);
    table.add({group.name(), members, partitions});
  }

  std::vector<std::string> none_;
  Table::Style style_;
};

}  // namespace

const CommandEntry list_groups_command = {"list-groups", "", "list the consumer groups of the store", make_command<ListGroups>};

}  // namespace partlog::cmd

// `partlog list-topics`
#include "table.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class ListTopics : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(none_, "operand", 0, 0);
    style_.declare(options);
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    Table table({"topic", "partitions"});
    Outcome outcome;
    for (const auto& name : store.topic_names()) {
      try {
        if (auto topic = store.find_topic(name)) table.add({name, std::int64_t{topic->partitions}});
      } catch (const Error& error) {
        table.add_failed({name}, error.what());
        outcome.fail(error);
      }
    }
    table.print(style_);
    return outcome.status();
  }

 private:
  std::vector<std::string> none_;
  Table::Style style_;
};

}  // namespace

const CommandEntry list_topics_command = {"list-topics", "", "list the topics of the store", make_command<ListTopics>};

}  // namespace partlog::cmd

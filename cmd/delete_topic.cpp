// `partlog delete-topic`
#include "consent.h"
#include "messages.h"
#include "output.h"
#include "text.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class DeleteTopic : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "topic", 1);
    options.flag("--if-exists", if_exists_, "a topic that does not exist is no error");
    options.flag("--yes", yes_, "do not ask");
    declare_dry_run(options, dry_run_);
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    if (!dry_run_ && !yes_) require_consent(deletion_question(names_, "topic", "records"));
    Output output;
    int status = for_each_item(names_, [&](const std::string& name) {
      if (if_exists_ && !store.find_topic(name)) return;
      Topic topic = store.topic(name);
      if (dry_run_) {
        store.require_writable();
        output.append("would delete topic " + description(store, topic) + "\n");
      } else {
        store.delete_topic(topic);
        detail("deleted topic " + name);
      }
    });
    output.flush();
    return status;
  }

 private:
  static std::string description(const Store& store, const Topic& topic) {
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
    for (int p = 0; p < topic.partitions; ++p) {
      PartitionInfo info = store.partition_info(topic, p);
      records += static_cast<std::uint64_t>(info.end - info.start);
      bytes += static_cast<std::uint64_t>(info.size_bytes);
    }
    return topic.name + ": " + counted(static_cast<std::uint64_t>(topic.partitions), "partition") + ", " +
           counted(records, "offset") + ", " + counted(bytes, "byte");
  }

  std::vector<std::string> names_;
  bool if_exists_ = false;
  bool yes_ = false;
  bool dry_run_ = false;
};

}  // namespace

const CommandEntry delete_topic_command = {"delete-topic", "TOPIC...", "remove topics with all their records",
                                           make_command<DeleteTopic>};

}  // namespace partlog::cmd

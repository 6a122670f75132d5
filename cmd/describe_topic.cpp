// `partlog describe-topic`
#include "table.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class DescribeTopic : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "topic", 0);
    options.flag("--configs", configs_, "the configuration in force, and which values are defaults");
    options.flag("--segments", segments_, "the segments of each partition");
    style_.declare(options);
    options.conflict("--configs", "--segments");
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    if (names_.empty()) names_ = store.topic_names();
    Table table(configs_    ? std::vector<std::string>{"topic", "config", "value", "is_default"}
                : segments_ ? std::vector<std::string>{"topic", "partition", "base_offset", "size_bytes", "modified"}
                            : std::vector<std::string>{"topic", "partition", "start_offset", "end_offset", "size_bytes",
                                                       "segments", "leader", "in_sync"});
    for (const auto& name : names_) describe(store, name, table);
    table.print(style_);
    return outcome_.status();
  }

 private:
  void describe(const Store& store, const std::string& name, Table& table) {
    try {
      Topic topic = store.topic(name);
      if (configs_) {
        add_configs(topic, table);
      } else {
        for (int p = 0; p < topic.partitions; ++p) add_partition(store, topic, p, table);
      }
    } catch (const Error& error) {
      table.add_failed({name}, error.what());
      outcome_.fail(error);
    }
  }

  static void add_configs(const Topic& topic, Table& table) {
    for (const auto& definition : TopicConfig::definitions()) {
      std::string name(definition.name);
      table.add({topic.name, name, topic.config.get(name), !topic.config.is_set(name)});
    }
  }

  void add_partition(const Store& store, const Topic& topic, int partition, Table& table) {
    try {
      PartitionInfo info = store.partition_info(topic, partition);
      if (segments_) {
        for (const auto& segment : info.segments) {
          table.add({topic.name, std::int64_t{partition}, segment.base.value, segment.size_bytes, time_cell(segment.modified)});
        }
      } else {
        table.add({topic.name, std::int64_t{partition}, info.start.value, info.end.value, info.size_bytes,
                   static_cast<std::int64_t>(info.segments.size()), Cell(), Cell()});
      }
    } catch (const Error& error) {
      table.add_failed({topic.name, std::int64_t{partition}}, error.what());
      outcome_.fail(error);
    }
  }

  std::vector<std::string> names_;
  bool configs_ = false;
  bool segments_ = false;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry describe_topic_command = {
    "describe-topic", "[TOPIC]...", "list the partitions of topics, with their offsets and sizes", make_command<DescribeTopic>};

}  // namespace partlog::cmd

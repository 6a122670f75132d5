// `partlog disk-usage`
#include "messages.h"
#include "table.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class DiskUsageCommand : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "topic", 0);
    options.flag("--by-partition", by_partition_, "a row for each partition, not for each topic");
    style_.declare(options);
  }

  int run(const Globals& globals) override {
    const Store store = open_store(globals);
    Table table({"topic", by_partition_ ? "partition" : "partitions", "segments", "log_bytes", "index_bytes", "other_bytes",
                 "allocated_bytes"});
    const bool all = names_.empty();
    if (all) names_ = store.topic_names();
    for (const auto& name : names_) add_topic(store, name, table);
    if (all) add(table, {Cell(), Cell()}, store.disk_usage_outside_topics());
    table.print(style_);
    return outcome_.status();
  }

 private:
  // What could not be looked into is told; the rest counts.
  void add(Table& table, std::vector<Cell> row, const DiskUsage& usage) {
    for (const auto& error : usage.unreadable) outcome_.fail(error, "not counted");
    for (const auto& error : usage.foreign) notice(std::string("not counted: ") + error.what());
    for (const auto bytes : {usage.segments, usage.log_bytes, usage.index_bytes, usage.other_bytes, usage.allocated_bytes}) {
      row.emplace_back(bytes);
    }
    table.add(std::move(row));
  }

  void add_topic(const Store& store, const std::string& name, Table& table) {
    try {
      const Topic topic = store.topic(name);
      if (!by_partition_) return add(table, {name, std::int64_t{topic.partitions}}, store.disk_usage(topic));
      for (int p = 0; p < topic.partitions; ++p) add(table, {name, std::int64_t{p}}, store.disk_usage(topic, p));
    } catch (const Error& error) {
      table.add_failed({name}, error.what());
      outcome_.fail(error);
    }
  }

  std::vector<std::string> names_;
  bool by_partition_ = false;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry disk_usage_command = {"disk-usage", "[TOPIC]...", "tell how much space topics take up",
                                         make_command<DiskUsageCommand>};

}  // namespace partlog::cmd

// `partlog get-offsets`
#include "address.h"
#include "partlog/reader.h"
#include "table.h"
#include "times.h"
#include "topic_commands.h"

namespace partlog::cmd {
namespace {

class GetOffsets : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "topic", 1);
    options.text("--time", "WHEN", time_,
                 "earliest (-2), latest (-1, the default), max-timestamp (-3), or a time: the first record at or after it");
    options.flag("--local", zone_.local, "a time without zone is local time, not UTC");
    style_.declare(options);
    options.require("--local", {"--time"});
  }

  void validate(const OptionSet&) override {
    for (const auto& operand : operands_) addresses_.push_back(parse_topic_address(operand));
    std::string text = time_.value_or("latest");
    if (text == "earliest" || text == "-2") {
      kind_ = Kind::earliest;
    } else if (text == "latest" || text == "-1") {
      kind_ = Kind::latest;
    } else if (text == "max-timestamp" || text == "-3") {
      kind_ = Kind::max_timestamp;
    } else {
      kind_ = Kind::at_time;
      at_ = parse_time(text, "--time", now(), zone_);
    }
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    Table table({"topic", "partition", "offset", "timestamp"});
    for (const auto& address : addresses_) {
      try {
        Topic topic = store.topic(address.topic);
        std::vector<PartitionRange> missing;
        for (int partition : expand_partitions(address.partitions, topic, missing)) add(store, topic, partition, table);
        for (auto range : missing) fail(address.topic, {range}, no_such_partition(topic, range), table);
      } catch (const Error& error) {
        fail(address.topic, address.partitions, error, table);
      }
    }
    table.print(style_);
    return outcome_.status();
  }

 private:
  enum class Kind { earliest, latest, max_timestamp, at_time };
  using Found = std::pair<Cell, Cell>;  // offset and timestamp

  // A row for each of the ranges, with its partition if it is one; a row without if there is none.
  void fail(const std::string& topic, const std::vector<PartitionRange>& ranges, const Error& error, Table& table) {
    for (auto range : ranges) {
      Cell partition = range.first == range.last ? Cell(std::int64_t{range.first}) : Cell();
      table.add_failed({topic, partition}, error.what());
    }
    if (ranges.empty()) table.add_failed({topic}, error.what());
    outcome_.fail(error);
  }

  void add(const Store& store, const Topic& topic, int partition, Table& table) {
    try {
      PartitionReader reader(store, topic, partition);
      auto [offset, timestamp] = find(reader);
      table.add({topic.name, std::int64_t{partition}, offset, timestamp});
    } catch (const Error& error) {
      table.add_failed({topic.name, std::int64_t{partition}}, error.what());
      outcome_.fail(error);
    }
  }

  Found find(PartitionReader& reader) const {
    switch (kind_) {
      case Kind::earliest:
        return {reader.start().value, Cell()};
      case Kind::latest:
        return {reader.end().value, Cell()};
      case Kind::max_timestamp:
        if (auto found = reader.max_timestamp()) return {found->offset.value, time_cell(found->timestamp)};
        return {};
      case Kind::at_time:
        break;
    }
    auto offset = reader.offset_at(at_);
    if (!offset) return {};
    reader.seek(*offset);
    auto records = reader.read(*offset + 1);
    return {offset->value, records.empty() ? Cell() : time_cell(records.front().timestamp)};
  }

  std::vector<std::string> operands_;
  std::vector<Address> addresses_;
  std::optional<std::string> time_;
  TimeZone zone_;
  Kind kind_ = Kind::latest;
  Timestamp at_;
  Table::Style style_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry get_offsets_command = {"get-offsets", "TOPIC[:PARTITIONS]...",
                                          "look up offsets by time, or the start or the end of partitions",
                                          make_command<GetOffsets>};

}  // namespace partlog::cmd

// `partlog check-lag`
#include <set>

#include "group_commands.h"
#include "group_standing.h"
#include "table.h"

namespace partlog::cmd {
namespace {

class CheckLag : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "topic", 0);
    declare_group(options, group_);
    options.number("--max", "N", max_, "the largest lag that is no alarm (must be given)");
    style_.declare(options);
  }

  void validate(const OptionSet&) override {
    require_group(group_);
    if (!max_) throw UsageError("--max N is missing: the largest lag that is no alarm");
    for (const auto& operand : operands_) addresses_.push_back(parse_topic_address(operand));
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    Group group = Group::open(store, *group_);
    TopicCache topics(store);
    Table table({"group", "topic", "partition", "committed", "end_offset", "lag"});
    bool everything = addresses_.empty();
    if (everything) name_topics(group, topics);
    for (const auto& address : addresses_) {
      try {
        const Topic& topic = topics.get(address.topic);
        std::vector<PartitionRange> missing;
        for (int partition : expand_partitions(address.partitions, topic, missing)) check(store, group, topic, partition, table);
        for (const auto range : missing) {
          const bool one = range.first == range.last;
          fail({group.name(), topic.name, one ? Cell(std::int64_t{range.first}) : Cell()}, no_such_partition(topic, range),
               table);
        }
      } catch (const Error& error) {
        fail({group.name(), address.topic}, error, table);
      }
    }
    if (any_row_ || style_.json || style_.tsv) table.print(style_);
    return outcome_.status();
  }

 private:
  // All topics in which the group has a position, or to which a live member is subscribed.
  void name_topics(const Group& group, TopicCache& topics) {
    std::set<std::string> names;
    std::vector<FailedTopic> failed;
    for (const auto& partition : partitions_of(group, topics, failed)) names.insert(partition.topic);
    for (const auto& failure : failed) names.insert(failure.topic);  // each partition will say so
    for (const auto& member : group.state().members) names.insert(member.topics.begin(), member.topics.end());
    for (const auto& name : names) {
      try {
        if (topics.find(name) == nullptr) continue;  // deleted: nothing can be read there
      } catch (const Error&) {                       // is found again
      }
      addresses_.push_back({name, {}, {}});
    }
  }

  void fail(std::vector<Cell> first_cells, const Error& error, Table& table) {
    table.add_failed(std::move(first_cells), error.what());
    outcome_.fail(error);
    any_row_ = true;
  }

  void check(const Store& store, const Group& group, const Topic& topic, int partition, Table& table) {
    std::vector<Cell> row = {group.name(), topic.name, std::int64_t{partition}};
    try {
      Standing now = standing(store, group, &topic, {topic.name, partition});
      if (now.committed && !now.lag) {
        throw Error(ErrorCode::offset_out_of_range, "group \"" + group.name() + "\", " + partition_name(topic.name, partition) +
                                                        ": position " + std::to_string(now.committed->value) +
                                                        " is beyond the end of the log, " + std::to_string(now.end->value));
      }
      std::int64_t lag = now.lag ? *now.lag : *now.end - *now.start;
      if (lag <= *max_) return;
      row.insert(row.end(), {now.committed ? Cell(now.committed->value) : Cell(), now.end->value, lag});
      table.add(std::move(row));
      any_row_ = true;
      outcome_.fail(status_check_failed);
    } catch (const Error& error) {
      fail(std::move(row), error, table);
    }
  }

  std::vector<std::string> operands_;
  std::vector<Address> addresses_;
  std::optional<std::string> group_;
  std::optional<std::int64_t> max_;
  Table::Style style_;
  Outcome outcome_;
  bool any_row_ = false;
};

}  // namespace

const CommandEntry check_lag_command = {"check-lag", "[TOPIC[:PARTITIONS]]...",
                                        "tell whether a group is more than so many records behind", make_command<CheckLag>};

}  // namespace partlog::cmd

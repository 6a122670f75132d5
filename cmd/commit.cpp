// `partlog commit`
#include <limits>

#include "group_commands.h"
#include "messages.h"
#include "offsets_file.h"
#include "output.h"
#include "text.h"

namespace partlog::cmd {
namespace {

class Commit : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "position", 0);
    declare_group(options, group_);
    options.text("--from-file", "FILE", file_, "the positions stand in FILE (- is standard input): topic,partition,offset");
    options.flag("--processed", processed_, "the offsets are those of the last records handled, not of the next to read");
    options.text("--metadata", "TEXT", metadata_, "a text to be kept with the positions");
    declare_dry_run(options, dry_run_);
  }

  void validate(const OptionSet&) override {
    require_group(group_);
    if (metadata_ && metadata_->size() > largest_metadata) {
      throw UsageError("--metadata has " + counted(metadata_->size(), "byte") + ", and " + std::to_string(largest_metadata) +
                       " are the most");
    }
    if (file_ && !operands_.empty()) throw UsageError("--from-file cannot be combined with positions as operands");
    if (!file_ && operands_.empty()) throw UsageError("a position is missing: write TOPIC:PARTITION:OFFSET, or --from-file");
    for (const auto& operand : operands_) {
      Address address = parse_address(operand);
      if (!address.offset) throw UsageError("'" + operand + "' names no offset; write TOPIC:PARTITION:OFFSET");
      items_.push_back({address.topic, address.partitions.front().first, *address.offset, ""});
    }
  }

  int run(const Globals& globals) override {
    if (file_) items_ = read_offsets_file(*file_, *group_);
    Store store = open_store(globals);
    TopicCache topics(store);
    auto group = find_group(store, *group_);
    std::string plan;
    Outcome outcome;
    for (const auto& item : items_) {
      try {
        const Topic& topic = topics.get(item.topic);
        if (item.partition >= topic.partitions) throw no_such_partition(topic, {item.partition, item.partition});
        Offset next = next_offset(item);
        if (dry_run_) {
          plan += describe(store, group, topic, item.partition, next);
          continue;
        }
        if (!group) {
          Group::check_commit(store, *group_, topic, item.partition, next);  // what fails makes no group
          group = Group::open_or_create(store, *group_);
        }
        group->commit(store, topic, item.partition, next, metadata_.value_or(""), globals.lock_timeout);
        detail("committed " + partition_name(item.topic, item.partition) + " at " + std::to_string(next.value));
      } catch (const Error& error) {
        outcome.fail_once(error, item.where);
      }
    }
    if (dry_run_) print(plan);
    return outcome.status();
  }

 private:
  static constexpr std::size_t largest_metadata = 4096;

  Offset next_offset(const OffsetRow& item) const {
    if (!processed_) return item.offset;
    if (item.offset.value == std::numeric_limits<std::int64_t>::max()) {
      throw Error(ErrorCode::offset_out_of_range, "no offset follows " + std::to_string(item.offset.value));
    }
    return item.offset + 1;
  }

  // What would be done; throws what Group::commit() would throw.
  std::string describe(const Store& store, const std::optional<Group>& group, const Topic& topic, int partition,
                       Offset next) const {
    require_writable(store, group);
    auto position = Group::check_commit(store, *group_, topic, partition, next);
    auto name = partition_name(topic.name, partition);
    std::string line = "would commit " + name + " at " + std::to_string(next.value);
    if (!position) return line + " (no position now)\n";
    std::string now = std::to_string(position->offset.value);
    return next == position->offset ? name + " is at " + now + " already\n" : line + " (now " + now + ")\n";
  }

  static void print(const std::string& text) {
    Output output;
    output.append(text);
    output.finish();
  }

  std::vector<std::string> operands_;
  std::optional<std::string> group_;
  std::optional<std::string> file_;
  std::optional<std::string> metadata_;
  bool processed_ = false;
  bool dry_run_ = false;
  std::vector<OffsetRow> items_;
};

}  // namespace

const CommandEntry commit_command = {"commit", "[TOPIC:PARTITION:OFFSET]...", "move a group's positions forward",
                                     make_command<Commit>};

}  // namespace partlog::cmd

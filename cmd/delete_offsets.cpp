// `partlog delete-offsets`
#include <algorithm>

#include "consent.h"
#include "group_commands.h"
#include "messages.h"
#include "output.h"

namespace partlog::cmd {
namespace {

class DeleteOffsets : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(operands_, "topic", 1);
    declare_group(options, group_);
    options.flag("--if-exists", if_exists_, "a group or a position that does not exist is no error");
    options.flag("--yes", yes_, "do not ask");
    declare_dry_run(options, dry_run_);
  }

  void validate(const OptionSet&) override {
    require_group(group_);
    for (const auto& operand : operands_) {
      addresses_.push_back(parse_topic_address(operand));
      require_valid_topic_name(addresses_.back().topic);
    }
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    if (!dry_run_ && !yes_) require_consent(question());
    auto group = find_group(store, *group_);
    if (!group && if_exists_) return status_done;
    if (!group) group = Group::open(store, *group_);  // throws, naming similar ones
    std::optional<GroupChange> change;
    if (!dry_run_) change.emplace(*group, globals.lock_timeout);
    auto present = group->partitions();
    for (const auto& address : addresses_) {
      try {
        if (dry_run_) {
          GroupChange::check(*group);
          require_no_owner(*group, address.topic);
        }
        remove(store, *group, address, present, change ? &*change : nullptr);
      } catch (const Error& error) {
        outcome_.fail(error);
      }
    }
    if (dry_run_) print();
    return outcome_.status();
  }

 private:
  std::string question() const {
    std::string text = "delete the positions of group " + *group_ + " in ";
    for (const auto& operand : operands_) text += (&operand == operands_.data() ? "" : ", ") + operand;
    return text + "?";
  }

  // The topic need not exist any more: only its name counts.
  void remove(const Store& store, const Group& group, const Address& address, const std::vector<TopicPartition>& present,
              GroupChange* change) {
    bool any = false;
    for (const auto& partition : present) {
      if (partition.topic != address.topic || !names(address, partition.partition)) continue;
      any = true;
      try {
        remove(store, group, partition, change);
      } catch (const Error& error) {
        outcome_.fail_once(error);
      }
    }
    if (if_exists_) return;
    if (address.partitions.empty() && !any) missing(group, address.topic);
    for (auto range : address.partitions) {
      auto within = [&](const TopicPartition& p) { return p.topic == address.topic && includes(range, p.partition); };
      if (std::none_of(present.begin(), present.end(), within)) missing(group, range_name(address.topic, range));
    }
  }

  void remove(const Store& store, const Group& group, const TopicPartition& partition, GroupChange* change) {
    const auto name = partition_name(partition.topic, partition.partition);
    if (change == nullptr) {
      require_writable(store, group);
      GroupChange::check(group, partition.topic, partition.partition);
      plan_ += "would delete the position in " + name + '\n';
    } else if (change->remove_offset(partition.topic, partition.partition)) {
      detail("deleted the position in " + name);
    }
  }

  static bool includes(PartitionRange range, int partition) { return partition >= range.first && partition <= range.last; }

  static bool names(const Address& address, int partition) {
    const auto& ranges = address.partitions;
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](auto range) { return includes(range, partition); });
  }

  static std::string range_name(const std::string& topic, PartitionRange range) {
    std::string name = partition_name(topic, range.first);
    return range.first == range.last ? name : name + '-' + std::to_string(range.last);
  }

  void missing(const Group& group, const std::string& where) {
    outcome_.fail(Error(ErrorCode::not_found, "group \"" + group.name() + "\" has no position in " + where));
  }

  void print() const {
    Output output;
    output.append(plan_);
    output.finish();
  }

  std::vector<std::string> operands_;
  std::vector<Address> addresses_;
  std::optional<std::string> group_;
  bool if_exists_ = false;
  bool yes_ = false;
  bool dry_run_ = false;
  std::string plan_;
  Outcome outcome_;
};

}  // namespace

const CommandEntry delete_offsets_command = {"delete-offsets", "TOPIC[:PARTITIONS]...", "remove a group's positions in topics",
                                             make_command<DeleteOffsets>};

}  // namespace partlog::cmd

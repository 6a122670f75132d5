// `partlog delete-group`
#include "consent.h"
#include "group_commands.h"
#include "messages.h"
#include "output.h"
#include "text.h"

namespace partlog::cmd {
namespace {

class DeleteGroup : public Command {
 public:
  void declare(OptionSet& options) override {
    options.operands(names_, "group", 1);
    options.flag("--if-exists", if_exists_, "a group that does not exist is no error");
    options.flag("--yes", yes_, "do not ask");
    declare_dry_run(options, dry_run_);
  }

  int run(const Globals& globals) override {
    Store store = open_store(globals);
    if (!dry_run_ && !yes_) require_consent(deletion_question(names_, "group", "positions"));
    Output output;
    int status = for_each_item(names_, [&](const std::string& name) {
      if (if_exists_ && !find_group(store, name)) return;
      Group group = Group::open(store, name);
      if (dry_run_) {
        GroupChange::check(group);
        require_no_members(group);
        require_writable(store, group);
        output.append("would delete group " + name + ": " + positions(group) + '\n');
      } else {
        GroupChange(group, globals.lock_timeout).remove_group();
        detail("deleted group " + name);
      }
    });
    output.flush();
    return status;
  }

 private:
  // What is in the way of its positions is removed with them.
  static std::string positions(const Group& group) {
    try {
      std::vector<FailedTopic> failed;
      const auto count = group.partitions(&failed).size();
      if (failed.empty()) return counted(count, "position");
    } catch (const Error&) {
    }
    return "positions, and what stands in their place";
  }

  std::vector<std::string> names_;
  bool if_exists_ = false;
  bool yes_ = false;
  bool dry_run_ = false;
};

}  // namespace

const CommandEntry delete_group_command = {"delete-group", "GROUP...", "remove groups with all their positions",
                                           make_command<DeleteGroup>};

}  // namespace partlog::cmd

// What the commands that make, change and remove topics share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "command.h"
#include "exit_status.h"
#include "options.h"

namespace partlog::cmd {

Store open_store(const Globals& globals);

// A command for people to type, with --dir where this store is not the one that they would get without it.
std::string command_for(const Store& store, std::string_view words);
// The one that lets a group go on at the end of a partition.
std::string reset_command(const Store& store, const std::string& group, const std::string& partition,
                          std::string_view target = "--to-latest");

// `name=value`; UsageError without the `=`.
std::pair<std::string, std::string> parse_setting(std::string_view text, std::string_view option);

void declare_dry_run(OptionSet& options, bool& target);

// Calls `work` for each item; one that fails is reported and does not keep the others from being done.
template <class Work>
int for_each_item(const std::vector<std::string>& items, Work work) {
  Outcome outcome;
  for (const auto& item : items) {
    try {
      work(item);
    } catch (const Error& error) {
      outcome.fail(error);
    }
  }
  return outcome.status();
}

}  // namespace partlog::cmd

#include "topic_commands.h"

#include "text.h"

namespace partlog::cmd {

Store open_store(const Globals& globals) { return Store::open(globals.store_directory()); }

std::string command_for(const Store& store, std::string_view words) {
  std::string usual;
  try {
    usual = Globals().store_directory();
  } catch (const UsageError&) {
    // No store is named.
  }
  const auto which = store.directory() == usual ? "" : "-d " + shell_word(store.directory()) + " ";
  return "partlog " + which + std::string(words);
}

std::string reset_command(const Store& store, const std::string& group, const std::string& partition, std::string_view target) {
  return command_for(store, "reset-offset --group " + group + " " + partition + " " + std::string(target) + " --execute");
}

std::pair<std::string, std::string> parse_setting(std::string_view text, std::string_view option) {
  std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw UsageError(std::string(option) + " needs NAME=VALUE, not '" + std::string(text) + "'");
  }
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

void declare_dry_run(OptionSet& options, bool& target) {
  options.flag("-n,--dry-run", target, "print what would be done, and do nothing");
}

}  // namespace partlog::cmd

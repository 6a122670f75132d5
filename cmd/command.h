// What every subcommand is, the list of them, and the options that they share.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "partlog/store.h"

namespace partlog::cmd {

// The options that stand before or after the subcommand.
struct Globals {
  std::optional<std::string> directory;
  std::optional<std::chrono::milliseconds> lock_timeout;
  bool quiet = false;
  bool verbose = false;
  bool help = false;
  bool version = false;

  void declare(OptionSet& options);  // those of every command
  // -d, else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog.
  std::string store_directory() const;
};

// One run of a subcommand: declare() its options, then, when they are parsed, validate() them together and run().
class Command {
 public:
  virtual ~Command() = default;
  virtual void declare(OptionSet& options) = 0;
  virtual void validate(const OptionSet&) {}
  virtual int run(const Globals& globals) = 0;
};

struct CommandEntry {
  std::string_view name;
  std::string_view operands;
  std::string_view summary;
  std::unique_ptr<Command> (*make)();
};

// All subcommands, in the order of the help.
extern const CommandEntry create_topic_command, alter_topic_command, delete_topic_command, list_topics_command,
    describe_topic_command, get_offsets_command, produce_command, consume_command, commit_command, reset_offset_command,
    list_groups_command, describe_group_command, delete_group_command, delete_offsets_command, check_lag_command, dump_command,
    verify_command, disk_usage_command, diff_command, locks_command, help_command;
const std::vector<const CommandEntry*>& commands();
// UsageError naming similar commands.
const CommandEntry& find_command(std::string_view name);

// The usage of one command, or of the program.
void print_help(const CommandEntry& entry);
void print_general_help();

template <class T>
std::unique_ptr<Command> make_command() {
  return std::make_unique<T>();
}

// Everything behind main(): returns the exit status.
int run_program(int argc, char** argv);

}  // namespace partlog::cmd

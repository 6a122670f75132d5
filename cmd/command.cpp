#include "command.h"

#include <cstdlib>

#include "exit_status.h"
#include "messages.h"
#include "output.h"
#include "partlog/version.h"
#include "signals.h"
#include "text.h"

namespace partlog::cmd {
namespace {

int run_command(const CommandEntry& entry, Globals& globals, std::vector<std::string> arguments) {
  if (globals.help) {  // before the name of the command
    print_help(entry);
    return status_done;
  }
  auto command = entry.make();
  OptionSet options;
  command->declare(options);
  globals.declare(options);
  options.parse(std::move(arguments));
  set_verbosity(globals.quiet, globals.verbose);
  if (globals.help) {
    print_help(entry);
    return status_done;
  }
  command->validate(options);
  return command->run(globals);
}

void print_version() {
  Output output;
  output.append("partlog ");
  output.append(version());
  output.append("\n");
  output.finish();
}

int run_arguments(std::vector<std::string> arguments) {
  Globals globals;
  OptionSet options;
  globals.declare(options);
  options.flag("-V,--version", globals.version, "print the version");
  auto rest = options.parse_prefix(std::move(arguments));
  set_verbosity(globals.quiet, globals.verbose);
  if (globals.version) {
    print_version();
    return status_done;
  }
  if (rest.empty()) {
    if (!globals.help) throw UsageError("a command is missing (partlog help lists them)");
    print_general_help();
    return status_done;
  }
  const CommandEntry& entry = find_command(rest[0]);
  rest.erase(rest.begin());
  return run_command(entry, globals, std::move(rest));
}

const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

}  // namespace

void Globals::declare(OptionSet& options) {
  options.text("-d,--dir", "DIR", directory, "the store; else $PARTLOG_DIR, else ${XDG_DATA_HOME:-~/.local/share}/partlog");
  options.duration("--lock-timeout", lock_timeout, "give up when a lock is not free within TIME (status 6)");
  options.flag("-q,--quiet", quiet, "no notices");
  options.flag("-v,--verbose", verbose, "more notices");
  options.flag("-h,--help", help, "print this help");
}

std::string Globals::store_directory() const {
  if (directory) {
    if (directory->empty()) throw UsageError("--dir needs a directory");
    return without_final_slashes(*directory);
  }
  if (const char* named = environment("PARTLOG_DIR")) return without_final_slashes(named);
  const char* data = environment("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/partlog";  // the XDG specification: a relative one is ignored
  if (const char* home = environment("HOME")) return std::string(home) + "/.local/share/partlog";
  throw UsageError("no store is named: give --dir, or set PARTLOG_DIR");
}

const std::vector<const CommandEntry*>& commands() {
  static const std::vector<const CommandEntry*> all = {
      &create_topic_command, &alter_topic_command,    &delete_topic_command, &list_topics_command,    &describe_topic_command,
      &get_offsets_command,  &produce_command,        &consume_command,      &commit_command,         &reset_offset_command,
      &list_groups_command,  &describe_group_command, &delete_group_command, &delete_offsets_command, &check_lag_command,
      &dump_command,         &verify_command,         &disk_usage_command,   &diff_command,           &locks_command,
      &help_command,
  };
  return all;
}

const CommandEntry& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const auto* entry : commands()) {
    if (entry->name == name) return *entry;
    names.emplace_back(entry->name);
  }
  throw UsageError("unknown command '" + std::string(name) + "'" + did_you_mean(name, names));
}

int run_program(int argc, char** argv) {
  try {
    prepare_process();
    return run_arguments({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const UsageError& error) {
    complain(error.what());
    return status_usage;
  } catch (const Error& error) {
    complain(error.what());
    return exit_status(error.code());
  } catch (const BrokenPipe&) {
    die_of_broken_pipe();
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return status_failed;
  }
}

}  // namespace partlog::cmd

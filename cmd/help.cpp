// `partlog help`, the usage of each command, and the list that completions and manual pages are checked against.
#include <algorithm>

#include "command.h"
#include "output.h"

namespace partlog::cmd {
namespace {

constexpr std::size_t help_width = 100;

// "  left   text", the text wrapped and aligned at `column`.
void append_entry(std::string& out, const std::string& left, std::size_t column, std::string_view text) {
  out += "  ";
  out += left;
  std::size_t at = 2 + left.size();
  bool first = true;
  while (!text.empty()) {
    std::size_t end = text.find(' ');
    std::string_view word = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (at + 1 > column && !first && at + 1 + word.size() > help_width) {
      out += '\n';
      at = 0;
    }
    if (at < column) {
      out.append(column - at, ' ');
      at = column;
    } else {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
    first = false;
  }
  out += '\n';
}

std::string left_side(const OptionSet::Option& option) {
  std::string text = option.letter.empty() ? "    " : option.letter;
  if (!option.name.empty() && !option.letter.empty()) text += ", ";
  text += option.name;
  if (!option.value_name.empty()) text += ' ';
  return text += option.value_name;
}

void append_options(std::string& out, const OptionSet& options) {
  std::size_t column = 0;
  for (const auto& option : options.all()) {
    if (!option.help.empty()) column = std::max(column, left_side(option).size() + 4);
  }
  for (const auto& option : options.all()) {
    if (!option.help.empty()) append_entry(out, left_side(option), column, option.help);
  }
}

OptionSet options_of(Command& command, Globals& globals) {
  OptionSet options;
  command.declare(options);
  globals.declare(options);
  return options;
}

void print(const std::string& text) {
  Output output;
  output.append(text);
  output.finish();
}

// One line per command and per option, tab-separated: command, letter, long name, value (of a command: its operands), help.
void append_list(std::string& out) {
  auto line = [&](std::initializer_list<std::string_view> fields) {
    for (auto field : fields) {
      out += field;
      out += '\t';
    }
    out.back() = '\n';
  };
  for (const auto* entry : commands()) {
    auto command = entry->make();
    Globals globals;
    OptionSet options = options_of(*command, globals);
    line({entry->name, "", "", entry->operands, entry->summary});
    for (const auto& option : options.all()) {
      if (!option.help.empty()) line({entry->name, option.letter, option.name, option.value_name, option.help});
    }
  }
}

class Help : public Command {
 public:
  void declare(OptionSet& options) override {
    options.flag("--list", list_, "print all commands and their options, tab-separated, for programs");
    options.operands(names_, "command", 0, 1);
  }

  int run(const Globals&) override {
    if (list_) {
      std::string text;
      append_list(text);
      print(text);
    } else if (names_.empty()) {
      print_general_help();
    } else {
      print_help(find_command(names_[0]));
    }
    return 0;
  }

 private:
  bool list_ = false;
  std::vector<std::string> names_;
};

}  // namespace

const CommandEntry help_command = {"help", "[COMMAND]", "describe the program or one of its commands", make_command<Help>};

void print_help(const CommandEntry& entry) {
  auto command = entry.make();
  Globals globals;
  std::string text = "Usage: partlog ";
  text += entry.name;
  text += " [OPTION]...";
  if (!entry.operands.empty()) text += ' ';
  text += entry.operands;
  text += "\n\n";
  std::size_t sentence = text.size();
  text += entry.summary;
  text[sentence] = static_cast<char>(text[sentence] - 'a' + 'A');
  text += ".\n\nOptions:\n";
  append_options(text, options_of(*command, globals));
  print(text);
}

void print_general_help() {
  std::string text =
      "Usage: partlog COMMAND [OPTION]... [OPERAND]...\n\n"
      "A partitioned, append-only log on a plain directory: Kafka's storage model without a server.\n\nCommands:\n";
  std::size_t column = 0;
  for (const auto* entry : commands()) column = std::max(column, entry->name.size() + 4);
  for (const auto* entry : commands()) append_entry(text, std::string(entry->name), column, entry->summary);
  Globals globals;
  OptionSet options;
  globals.declare(options);
  options.flag("-V,--version", globals.version, "print the version");
  text += "\nOptions of every command:\n";
  append_options(text, options);
  text += "\npartlog help COMMAND, or partlog COMMAND --help, describes one; so does man partlog-COMMAND.\n";
  print(text);
}

}  // namespace partlog::cmd

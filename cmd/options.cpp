#include "options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "exit_status.h"
#include "partlog/store.h"
#include "text.h"
#include "times.h"

namespace partlog::cmd {
namespace {

// CLI11 takes `--opt=` for an option whose value is the next argument. No argument can hold a NUL, so one marks the empty value.
constexpr char empty_value = '\0';

void mark_empty_values(std::vector<std::string>& arguments) {
  for (auto& argument : arguments) {
    if (argument == "--") break;
    if (argument.starts_with("--") && argument.ends_with("=")) argument += empty_value;
  }
}

std::vector<std::string> without_marks(std::vector<std::string> arguments) {
  for (auto& argument : arguments) {
    if (argument.ends_with(empty_value)) argument.pop_back();
  }
  return arguments;
}

// Whether an argument might name the option. CLI11 takes microseconds for each option it is told of, which would be a good part
// of the program's start, so it is not told of the others.
bool may_be_given(const OptionSet::Option& option, const std::vector<std::string>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    if (argument.starts_with("--")) return !option.name.empty() && argument.starts_with(option.name);
    return !option.letter.empty() && argument.starts_with('-') && argument.find(option.letter[1]) != std::string::npos;
  });
}

CLI::Option* add_to(CLI::App& app, const OptionSet::Option& option) {
  std::string names = option.letter;
  if (!option.name.empty()) names += (names.empty() ? "" : ",") + option.name;
  if (option.value_name.empty()) {
    return app.add_flag(names)->disable_flag_override()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  return app.add_option(names, CLI::callback_t{})->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

struct Habit {
  std::string_view option;
  std::string_view hint;
};

// What users of kcat and of Kafka's tools type, and what it is here.
constexpr Habit habits[] = {
    {"-t", "topics are operands: partlog consume TOPIC, partlog produce TOPIC"},
    {"--topic", "topics are operands: partlog consume TOPIC, partlog produce TOPIC"},
    {"-C", "the command comes first: partlog consume TOPIC"},
    {"-P", "the command comes first: partlog produce TOPIC"},
    {"-L", "the command comes first: partlog list-topics, or describe-topic"},
    {"-Q", "the command comes first: partlog get-offsets TOPIC --time TIME"},
    {"--list", "the command comes first: partlog list-topics"},
    {"--describe", "the command comes first: partlog describe-topic TOPIC"},
    {"--delete", "the command comes first: partlog delete-topic TOPIC"},
    {"--alter", "the command comes first: partlog alter-topic TOPIC"},
    {"--create", "the command comes first: partlog create-topic TOPIC"},
    {"-b", "there is no broker: --dir names the directory of the store"},
    {"--bootstrap-server", "there is no broker: --dir names the directory of the store"},
    {"--broker-list", "there is no broker: --dir names the directory of the store"},
    {"-G", "see --group of consume"},
    {"--group", "groups are operands of describe-group and delete-group; see partlog help for the commands that take --group"},
    {"-g", "groups are operands of describe-group and delete-group; see partlog help for the commands that take --group"},
    {"--all-groups", "groups are named; list-groups has them all"},
    {"--reset-offsets", "the command comes first: partlog reset-offset"},
    {"--delete-offsets", "the command comes first: partlog delete-offsets"},
    {"-X", "there is no client to configure; topics are: alter-topic --config"},
    {"-m", "see --lock-timeout, and --idle-timeout of consume"},
    {"--timeout-ms", "see --idle-timeout of consume"},
    {"-s", "there are no deserializers; see --format of consume"},
    {"-T", "there is no tee; see tee(1)"},
    {"-E", "an error ends the program always"},
    {"--from-beginning", "that is the default of consume; --tail and --offset start elsewhere"},
    {"--max-messages", "see --count"},
    {"--replication-factor", "nothing is replicated yet"},
    {"--config", "see create-topic and alter-topic"},
    {"--property", "see --key-delimiter and --format"},
};

// What CLI11 said in its own words about an option, in ours. Its message starts with the option's name, of a flag without dashes.
std::string mismatch(const std::string& message) {
  std::string name = message.substr(0, message.find_first_of(": "));
  return name.starts_with('-') ? name + " needs a value" : (name.size() == 1 ? "-" : "--") + name + " takes no value";
}

}  // namespace

std::string did_you_mean(std::string_view name, const std::vector<std::string>& among) {
  std::string text;
  for (const auto& similar : similar_names(name, among)) {
    text += text.empty() ? " (did you mean " : " or ";
    text += similar;
  }
  return text.empty() ? text : text + "?)";
}

void OptionSet::add(std::string_view names, std::string_view value_name, std::string_view help,
                    std::function<void(const std::string&)> take) {
  Option option;
  std::size_t comma = names.find(',');
  if (comma != std::string_view::npos) {
    option.letter = names.substr(0, comma);
    option.name = names.substr(comma + 1);
  } else {
    (names.starts_with("--") ? option.name : option.letter) = names;
  }
  option.value_name = value_name;
  option.help = help;
  option.take = std::move(take);
  options_.push_back(std::move(option));
}

void OptionSet::flag(std::string_view names, bool& target, std::string_view help) {
  add(names, "", help, [&target](const std::string&) { target = true; });
}

void OptionSet::text(std::string_view names, std::string_view value_name, std::optional<std::string>& target,
                     std::string_view help) {
  add(names, value_name, help, [&target](const std::string& value) { target = value; });
}

void OptionSet::escaped(std::string_view names, std::string_view value_name, std::optional<std::string>& target,
                        std::string_view help) {
  std::string name(names.substr(names.find("--")));
  add(names, value_name, help, [&target, name](const std::string& value) { target = unescape(value, name); });
}

void OptionSet::list(std::string_view names, std::string_view value_name, std::vector<std::string>& target,
                     std::string_view help) {
  add(names, value_name, help, [&target](const std::string& value) { target.push_back(value); });
}

void OptionSet::number(std::string_view names, std::string_view value_name, std::optional<std::int64_t>& target,
                       std::string_view help, std::int64_t least, std::int64_t most) {
  std::string name(names.substr(names.find("--")));
  add(names, value_name, help, [&target, name, least, most](const std::string& value) {
    // Where a number may be negative, a plus says that it is not.
    const bool plus = least < 0 && value.size() > 1 && value[0] == '+' && value[1] != '-';
    target = parse_decimal(std::string_view(value).substr(plus ? 1 : 0));
    if (target && *target >= least && *target <= most) return;
    std::string range = "a whole number";
    if (least != std::numeric_limits<std::int64_t>::min()) {
      range += " from " + std::to_string(least);
      range += most == std::numeric_limits<std::int64_t>::max() ? " on" : " to " + std::to_string(most);
    }
    throw UsageError(name + " needs " + range + ", not '" + value + "'");
  });
}

void OptionSet::duration(std::string_view names, std::optional<std::chrono::milliseconds>& target, std::string_view help) {
  std::string name(names.substr(names.find("--")));
  add(names, "TIME", help, [&target, name](const std::string& value) { target = parse_duration(value, name); });
}

void OptionSet::refuse(std::string_view names, std::string_view message) {
  add(names, "", "", [text = std::string(message)](const std::string&) { throw UsageError(text); });
}

void OptionSet::conflict(std::string_view one, std::string_view other) { conflicts_.emplace_back(one, other); }

void OptionSet::conflict(std::string_view one, std::initializer_list<std::string_view> others) {
  for (auto other : others) conflict(one, other);
}

void OptionSet::require(std::string_view name, std::initializer_list<std::string_view> any_of) {
  requirements_.emplace_back(name, std::vector<std::string>(any_of.begin(), any_of.end()));
}

bool OptionSet::given(std::string_view name) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& o) { return o.longest() == name && o.given; });
}

void OptionSet::operands(std::vector<std::string>& target, std::string_view what, std::size_t least, std::size_t most) {
  operands_ = &target;
  operand_name_ = what;
  least_operands_ = least;
  most_operands_ = most;
}

void OptionSet::parse(std::vector<std::string> arguments) {
  std::vector<std::string> none;
  std::vector<std::string>& operands = operands_ ? *operands_ : none;
  for (const auto& extra : read(std::move(arguments), &operands)) unknown(extra);
  if (!given("--help")) check(operands.size());
}

std::vector<std::string> OptionSet::parse_prefix(std::vector<std::string> arguments) {
  auto rest = read(std::move(arguments), nullptr);
  if (!rest.empty() && rest[0].size() > 1 && rest[0][0] == '-') unknown(rest[0]);
  return rest;
}

// Calls the takers; returns what is neither option nor (where `operands` is given) operand.
std::vector<std::string> OptionSet::read(std::vector<std::string> arguments, std::vector<std::string>* operands) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.prefix_command(operands == nullptr);
  CLI::Option* positional = nullptr;
  if (operands != nullptr) {
    constexpr int any_number = 1 << 24;
    positional = app.add_option("operands", CLI::callback_t{})->expected(any_number);
    positional->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  std::vector<std::pair<Option*, CLI::Option*>> parsers;
  for (auto& option : options_) {
    if (may_be_given(option, arguments)) parsers.emplace_back(&option, add_to(app, option));
  }

  mark_empty_values(arguments);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ArgumentMismatch& error) {
    throw UsageError(mismatch(error.what()));
  } catch (const CLI::Error& error) {
    throw UsageError(error.what());
  }
  auto extras = without_marks(app.remaining());
  auto mark = std::find(extras.begin(), extras.end(), "--");
  if (mark != extras.end() && (operands != nullptr || mark == extras.begin())) extras.erase(mark);
  if (!extras.empty() && operands != nullptr) return extras;
  for (auto [option, parser] : parsers) {
    for (const auto& value : without_marks(parser->results())) {
      option->given = true;
      option->take(value);
    }
  }
  if (operands != nullptr) *operands = without_marks(positional->results());
  return extras;
}

void OptionSet::check(std::size_t operand_count) const {
  for (const auto& [one, other] : conflicts_) {
    if (given(one) && given(other)) throw UsageError(one + " cannot be combined with " + other);
  }
  for (const auto& [name, others] : requirements_) {
    if (!given(name) || std::any_of(others.begin(), others.end(), [&](const auto& other) { return given(other); })) continue;
    std::string list;
    for (const auto& other : others) list += (list.empty() ? "" : &other == &others.back() ? " or " : ", ") + other;
    throw UsageError(name + " goes with " + list + " only");
  }
  if (operand_count < least_operands_) throw UsageError("a " + operand_name_ + " is missing");
  if (operand_count <= most_operands_) return;
  std::string extra = "'" + (*operands_)[most_operands_] + "'";
  if (most_operands_ == 0) throw UsageError("no operands are taken, but got " + extra);
  throw UsageError(counted(most_operands_, operand_name_) + " at most " + (most_operands_ == 1 ? "is" : "are") + " taken, but " +
                   extra + " follows");
}

void OptionSet::unknown(const std::string& argument) const {
  std::string name = argument.substr(0, argument.starts_with("--") ? argument.find('=') : 2);
  std::vector<std::string> names;
  for (const auto& option : options_) {
    if (!option.help.empty() && !option.name.empty()) names.push_back(option.name);
  }
  for (const auto& habit : habits) {
    if (habit.option == name) throw UsageError("unknown option " + name + " (" + std::string(habit.hint) + ")");
  }
  throw UsageError("unknown option " + name + (name.starts_with("--") ? did_you_mean(name, names) : ""));
}

}  // namespace partlog::cmd

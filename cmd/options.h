// The options of one command: declared with their help, then read from the command line. The facade over CLI11, which only
// options.cpp includes.
//
// All usage errors are UsageError with a one-line message. The targets of declared options must outlive parse().
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace partlog::cmd {

class OptionSet {
 public:
  struct Option {
    std::string letter;                            // "-p", or empty
    std::string name;                              // "--partition", or empty
    std::string value_name;                        // "N"; empty for a flag
    std::string help;                              // empty: accepted, but not listed
    std::function<void(const std::string&)> take;  // called for each occurrence, in order; UsageError or Error(invalid_argument)
    bool given = false;

    const std::string& longest() const { return name.empty() ? letter : name; }
  };

  // `names` is "-p,--partition", "--since" or "-l".
  void add(std::string_view names, std::string_view value_name, std::string_view help,
           std::function<void(const std::string&)> take);
  void flag(std::string_view names, bool& target, std::string_view help);
  // The last one given counts.
  void text(std::string_view names, std::string_view value_name, std::optional<std::string>& target, std::string_view help);
  // As text(), with the escapes of unescape().
  void escaped(std::string_view names, std::string_view value_name, std::optional<std::string>& target, std::string_view help);
  void list(std::string_view names, std::string_view value_name, std::vector<std::string>& target, std::string_view help);
  void number(std::string_view names, std::string_view value_name, std::optional<std::int64_t>& target, std::string_view help,
              std::int64_t least = 0, std::int64_t most = std::numeric_limits<std::int64_t>::max());
  void duration(std::string_view names, std::optional<std::chrono::milliseconds>& target, std::string_view help);
  // For a flag that users may expect but the command cannot have: UsageError(message) when it is given.
  void refuse(std::string_view names, std::string_view message);

  // The two, by long name, may not be given together.
  void conflict(std::string_view one, std::string_view other);
  void conflict(std::string_view one, std::initializer_list<std::string_view> others);
  // The first, by long name, may be given only with one of the others.
  void require(std::string_view name, std::initializer_list<std::string_view> any_of);
  bool given(std::string_view name) const;

  // Operands: between `least` and `most` of them; `what` names one in messages ("topic").
  void operands(std::vector<std::string>& target, std::string_view what, std::size_t least, std::size_t most = SIZE_MAX);

  // Reads options and operands, calls the takers, then checks conflicts and the number of operands, unless --help is given.
  void parse(std::vector<std::string> arguments);
  // Reads options up to the first operand; returns that and everything behind it. An unknown option is an error.
  std::vector<std::string> parse_prefix(std::vector<std::string> arguments);

  const std::vector<Option>& all() const { return options_; }

 private:
  std::vector<std::string> read(std::vector<std::string> arguments, std::vector<std::string>* operands);
  void check(std::size_t operand_count) const;
  [[noreturn]] void unknown(const std::string& argument) const;

  std::vector<Option> options_;
  std::vector<std::pair<std::string, std::string>> conflicts_;
  std::vector<std::pair<std::string, std::vector<std::string>>> requirements_;
  std::vector<std::string>* operands_ = nullptr;
  std::string operand_name_;
  std::size_t least_operands_ = 0;
  std::size_t most_operands_ = 0;
};

// " (did you mean 'x' or 'y'?)", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& among);

}  // namespace partlog::cmd

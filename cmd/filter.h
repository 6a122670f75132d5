// Which records `consume` lets pass.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partlog/record.h"

namespace partlog::cmd {

class Filter {
 public:
  struct Conditions {
    std::vector<std::string> keys;      // any of them
    std::vector<std::string> headers;   // all of them, `name=value`, or `name` with whatever value
    std::vector<std::string> patterns;  // any of them, extended regular expressions on the value's bytes
    bool invert_patterns = false;
  };

  // UsageError for a pattern that is none.
  explicit Filter(const Conditions& conditions);
  ~Filter();
  Filter(Filter&&) noexcept;

  bool passes_all() const;
  bool passes(const Record& record) const;
  // Those that pass: `records` itself, or what is kept in the filter until the next call.
  std::span<const Record> passing(std::span<const Record> records);

 private:
  class Patterns;

  bool has_headers(HeaderBlock headers) const;

  std::vector<std::string> keys_;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers_;
  std::unique_ptr<Patterns> patterns_;
  std::vector<Record> kept_;
};

// `name=value` or `name`.
std::pair<std::string, std::optional<std::string>> parse_header(const std::string& text);

}  // namespace partlog::cmd

// Listings: one array of JSON objects, tab-separated values, or columns for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "options.h"
#include "partlog/types.h"

namespace partlog::cmd {

// Null, number, truth or text.
using Cell = std::variant<std::monostate, std::int64_t, bool, std::string>;

Cell time_cell(Timestamp time);  // null for no_timestamp

class Table {
 public:
  // --json, --tsv and --no-header.
  struct Style {
    bool json = false;
    bool tsv = false;
    bool no_header = false;
    void declare(OptionSet& options);
    void declare_endless(OptionSet& options);  // for listings without an end: one object a line

   private:
    void declare(OptionSet& options, std::string_view json_help);
  };

  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}

  void add(std::vector<Cell> row);
  // A row that could not be filled: its first cells, null for the others, and why.
  void add_failed(std::vector<Cell> first_cells, std::string_view error);

  // Writes all to standard output and closes it.
  void print(const Style& style) const;

 private:
  std::string as_json() const;
  std::string as_tsv(bool header) const;
  std::string aligned(bool header) const;
  std::vector<std::vector<std::string>> plain_rows(bool header) const;

  std::vector<std::string> columns_;
  std::vector<std::vector<Cell>> rows_;  // of a failed row the last cell, beyond the columns, is the error
  bool any_failed_ = false;
};

}  // namespace partlog::cmd

#include "table.h"

#include <algorithm>

#include "output.h"
#include "text.h"
#include "times.h"

namespace partlog::cmd {
namespace {

const std::string error_column = "error";

// Invalid UTF-8 (only paths in error messages can hold it) is made visible, so that the array stays valid JSON.
void append_json_text(std::string& out, const std::string& text) {
  if (is_utf8(text)) return append_json_string(out, text);
  std::string visible;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x80) {
      visible += c;
    } else {
      append_escaped(visible, c);
    }
  }
  append_json_string(out, visible);
}

void append_json(std::string& out, const Cell& cell) {
  if (auto* number = std::get_if<std::int64_t>(&cell)) {
    append_number(out, *number);
  } else if (auto* truth = std::get_if<bool>(&cell)) {
    out += *truth ? "true" : "false";
  } else if (auto* text = std::get_if<std::string>(&cell)) {
    append_json_text(out, *text);
  } else {
    out += "null";
  }
}

std::string plain(const Cell& cell) {
  std::string out;
  if (auto* text = std::get_if<std::string>(&cell)) {
    append_visible(out, *text, true);
  } else if (std::holds_alternative<std::monostate>(cell)) {
    out = "-";
  } else {
    append_json(out, cell);
  }
  return out;
}

}  // namespace

Cell time_cell(Timestamp time) { return time == no_timestamp ? Cell() : Cell(format_time(time)); }

void Table::Style::declare(OptionSet& options) { declare(options, "print one JSON array of objects"); }
void Table::Style::declare_endless(OptionSet& options) { declare(options, "print one JSON object a line"); }

void Table::Style::declare(OptionSet& options, std::string_view json_help) {
  options.flag("--json", json, json_help);
  options.flag("--tsv", tsv, "print tab-separated values under a header line");
  options.flag("--no-header", no_header, "without the header line");
  options.conflict("--json", {"--tsv", "--no-header"});
}

void Table::add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

void Table::add_failed(std::vector<Cell> first_cells, std::string_view error) {
  first_cells.resize(columns_.size());
  first_cells.emplace_back(std::string(error));
  add(std::move(first_cells));
  any_failed_ = true;
}

void Table::print(const Style& style) const {
  Output output;
  output.append(style.json ? as_json() : style.tsv ? as_tsv(!style.no_header) : aligned(!style.no_header));
  output.finish();
}

std::string Table::as_json() const {
  std::string out = "[";
  for (const auto& row : rows_) {
    out += out.size() == 1 ? "{" : ",\n {";
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i > 0) out += ',';
      append_json_string(out, i < columns_.size() ? columns_[i] : error_column);
      out += ':';
      append_json(out, row[i]);
    }
    out += '}';
  }
  return out + "]\n";
}

// All cells as text, each row of the same length: a column for errors follows where there are any.
std::vector<std::vector<std::string>> Table::plain_rows(bool header) const {
  std::vector<std::vector<std::string>> rows;
  if (header) {
    rows.push_back(columns_);
    if (any_failed_) rows.back().push_back(error_column);
  }
  for (const auto& row : rows_) {
    auto& cells = rows.emplace_back();
    for (const auto& cell : row) cells.push_back(plain(cell));
    if (any_failed_) cells.resize(columns_.size() + 1, "-");
  }
  return rows;
}

std::string Table::as_tsv(bool header) const {
  std::string out;
  for (const auto& row : plain_rows(header)) {
    for (const auto& cell : row) out += cell + '\t';
    out.back() = '\n';
  }
  return out;
}

std::string Table::aligned(bool header) const {
  auto rows = plain_rows(header);
  std::vector<std::size_t> widths(columns_.size() + 1);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i) out += row[i] + std::string(widths[i] + 2 - row[i].size(), ' ');
    out += row.back() + '\n';
  }
  return out;
}

}  // namespace partlog::cmd

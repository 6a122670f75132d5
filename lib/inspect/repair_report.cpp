#include "inspect/repair_report.h"

#include <algorithm>

#include "format/file_names.h"
#include "format/properties.h"

namespace partlog::inspect {

namespace {

std::string_view take_word(std::string_view& text, char end) {
  const auto word = text.substr(0, text.find(end));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

}  // namespace

std::string format_repair_report(const RepairResult& result) {
  std::string text = result.before == Verdict::damaged ? "damaged\n" : "torn-tail\n";
  for (const auto& name : result.replaced) text += "replaced " + name + '\n';
  for (const auto& [first, last] : result.lost) {
    text += "lost " + std::to_string(first.value) + ' ' + std::to_string(last.value) + '\n';
  }
  if (result.end > Offset{0}) text += "end " + std::to_string(result.end.value) + '\n';
  if (result.list_is_new) text += "list-is-new\n";
  return text;
}

RepairResult parse_repair_report(std::string_view text, const std::string& partition_directory) {
  RepairResult result;
  result.before = Verdict::damaged;
  while (!text.empty()) {
    auto line = take_word(text, '\n');
    const auto word = take_word(line, ' ');
    if (word == "torn-tail") result.before = Verdict::torn_tail;
    if (word == "list-is-new") result.list_is_new = true;
    if (word == "replaced") result.replaced.emplace_back(line);
    if (word == "end") result.end = Offset{format::parse_integer(line).value_or(0)};
    if (word != "lost") continue;
    const auto first = format::parse_integer(take_word(line, ' '));
    const auto last = format::parse_integer(line);
    if (first && last && 0 <= *first && *first <= *last) result.lost.emplace_back(Offset{*first}, Offset{*last});
  }
  if (!result.lost.empty() || result.list_is_new) result.list = format::lost_offsets_path(partition_directory);
  return result;
}

}  // namespace partlog::inspect

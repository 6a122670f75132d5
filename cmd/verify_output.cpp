#include "verify_output.h"

#include <array>

#include "text.h"

namespace partlog::cmd {
namespace {

constexpr std::array columns = {
    RowOutput::Column{"type"},         RowOutput::Column{"verdict"},      RowOutput::Column{"position"},
    RowOutput::Column{"end_position"}, RowOutput::Column{"first_offset"}, RowOutput::Column{"last_offset"},
    RowOutput::Column{"segments"},     RowOutput::Column{"batches"},      RowOutput::Column{"records"},
    RowOutput::Column{"reason"},
};

std::string_view kind_name(CheckFinding::Kind kind) {
  if (kind == CheckFinding::Kind::note) return "note";
  return verdict_name(kind == CheckFinding::Kind::damage ? Verdict::damaged : Verdict::torn_tail);
}

std::string counted_of(std::uint64_t n, std::string_view what, std::string_view plural) {
  return std::to_string(n) + " " + std::string(n == 1 ? what : plural);
}

}  // namespace

std::string_view verdict_name(Verdict verdict) {
  if (verdict == Verdict::clean) return "clean";
  return verdict == Verdict::damaged ? "damaged" : "torn tail";
}

std::string offsets_text(const CheckFinding& finding) {
  const auto first = std::to_string(finding.first_offset->value);
  if (!finding.last_offset) return "offsets from " + first + " on";
  if (*finding.first_offset == *finding.last_offset) return "offset " + first;
  return "offsets " + first + " to " + std::to_string(finding.last_offset->value);
}

void VerifyOutput::line(std::string text) {
  std::string visible;
  for (char c : text) is_control(c) ? append_escaped(visible, c) : void(visible += c);
  output_.append(visible + "\n");
  output_.flush();
}

void VerifyOutput::finding(const CheckFinding& finding) {
  if (is_text()) {
    auto text = finding.file;
    if (finding.position) text += " position " + std::to_string(finding.position->value);
    if (finding.end && finding.end != finding.position) text += " to " + std::to_string(finding.end->value - 1);
    if (finding.first_offset) text += " (" + offsets_text(finding) + ")";
    return line(text + ": " + std::string(kind_name(finding.kind)) + ": " + finding.reason);
  }
  rows_.start(finding.file, columns);
  rows_.begin();
  rows_.word("finding");
  rows_.word(kind_name(finding.kind));
  number_or_null(finding.position);
  number_or_null(finding.end);
  number_or_null(finding.first_offset);
  number_or_null(finding.last_offset);
  for (int i = 0; i < 3; ++i) rows_.null();
  rows_.bytes(Bytes(std::string_view(finding.reason)));
  rows_.end();
  output_.flush();
}

void VerifyOutput::summary(const std::string& path, const CheckResult& result, bool is_directory) {
  if (is_text()) {
    auto text = path + ": " + std::string(verdict_name(result.verdict));
    if (is_directory) text += ", " + counted(result.segments, "segment");
    if (result.segments > 0)
      text += ", " + counted_of(result.batches, "batch", "batches") + ", " + counted(result.records, "record");
    if (result.first_offset) {
      text += ", offsets " + std::to_string(result.first_offset->value) + " to " + std::to_string(result.end.value - 1);
    }
    return line(text);
  }
  rows_.start(path, columns);
  rows_.begin();
  rows_.word("summary");
  rows_.word(verdict_name(result.verdict));
  rows_.null();
  rows_.null();
  number_or_null(result.first_offset);
  result.first_offset ? rows_.number(result.end.value - 1) : rows_.null();
  const bool is_log = result.segments > 0;
  is_log ? rows_.number(static_cast<std::int64_t>(result.segments)) : rows_.null();
  is_log ? rows_.number(static_cast<std::int64_t>(result.batches)) : rows_.null();
  is_log ? rows_.number(static_cast<std::int64_t>(result.records)) : rows_.null();
  rows_.null();
  rows_.end();
  output_.flush();
}

void VerifyOutput::summary(const std::string& path, Verdict verdict) {
  CheckResult result;
  result.verdict = verdict;
  summary(path, result, false);
}

}  // namespace partlog::cmd

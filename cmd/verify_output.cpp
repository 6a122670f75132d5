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
  if (!finding.last_offset) return "offsets from " + std::to_string(finding.first_offset->value) + " on";
  return offsets_text(*finding.first_offset, *finding.last_offset);
}

void VerifyOutput::flush() {
  has_failed_ = true;
  output_.flush();
  has_failed_ = false;
}

void VerifyOutput::finish() {
  if (style_.tsv && !any_) rows_.start({}, columns);
}

void VerifyOutput::line(std::string_view text) {
  std::string visible;
  append_visible(visible, text);
  output_.append(visible + "\n");
  flush();
}

void VerifyOutput::finding(const CheckFinding& finding) {
  if (is_text()) {
    auto text = finding.file;
    if (finding.position) text += " position " + std::to_string(finding.position->value);
    if (finding.end && finding.end != finding.position) text += " to " + std::to_string(finding.end->value - 1);
    if (finding.first_offset) text += " (" + offsets_text(finding) + ")";
    return line(text + ": " + std::string(kind_name(finding.kind)) + ": " + finding.reason);
  }
  row("finding", kind_name(finding.kind), finding, nullptr);
}

void VerifyOutput::row(std::string_view type, std::string_view verdict, const CheckFinding& finding, const CheckResult* counts) {
  any_ = true;
  rows_.start(finding.file, columns);
  rows_.begin();
  rows_.word(type);
  verdict.empty() ? rows_.null() : rows_.word(verdict);
  number_or_null(finding.position);
  number_or_null(finding.end);
  number_or_null(finding.first_offset);
  number_or_null(finding.last_offset);
  const bool is_log = counts != nullptr && counts->segments > 0;
  for (const auto count : {is_log ? counts->segments : 0, is_log ? counts->batches : 0, is_log ? counts->records : 0}) {
    is_log ? rows_.number(static_cast<std::int64_t>(count)) : rows_.null();
  }
  finding.reason.empty() ? rows_.null() : rows_.bytes(Bytes(std::string_view(finding.reason)));
  rows_.end();
  flush();
}

void VerifyOutput::summary(const std::string& path, const CheckResult& result, bool is_directory) {
  if (is_text()) {
    auto text = path + ": " + std::string(verdict_name(result.verdict));
    if (is_directory) text += ", " + counted(result.segments, "segment");
    if (result.segments > 0)
      text += ", " + counted_of(result.batches, "batch", "batches") + ", " + counted(result.records, "record");
    if (result.first_offset) {
      text += ", " + offsets_text(*result.first_offset, result.end - 1);
    }
    return line(text);
  }
  CheckFinding whole{{}, path, {}, {}, result.first_offset, {}, {}};
  if (result.first_offset) whole.last_offset = result.end - 1;
  row("summary", verdict_name(result.verdict), whole, &result);
}

// A line without a verdict: something that was done, or would be.
void VerifyOutput::step(std::string_view type, const std::string& path, std::string_view reason) {
  if (is_text()) return line(path + ": " + std::string(type) + (reason.empty() ? "" : ": ") + std::string(reason));
  row(type, {}, {{}, path, {}, {}, {}, {}, std::string(reason)}, nullptr);
}

void VerifyOutput::reindexed(const std::string& path, const RepairResult& result, bool dry_run) {
  for (const auto& name : result.replaced) step(dry_run ? "would be made anew" : "made anew", path + '/' + name, {});
  if (is_text())
    line(path + ": " + counted_of(result.replaced.size(), "index", "indexes") + (dry_run ? " would be made anew" : " made anew"));
}

void VerifyOutput::repaired(const std::string& path, const RepairResult& result, bool dry_run) {
  const std::string_view replaced = dry_run ? "would be replaced" : "replaced";
  for (const auto& name : result.replaced) {
    const auto file = path + '/' + name;
    const bool begins_anew = result.list_is_new && file == result.list;
    step(replaced, file, begins_anew ? "what it listed cannot be read; only what is missing now is listed" : "");
  }
  std::int64_t count = 0;
  for (const auto& [first, last] : result.lost) {
    CheckFinding lost{{}, path, {}, {}, first, last, {}};
    count += last - first + 1;
    is_text() ? line(path + ": lost: " + offsets_text(lost)) : row("lost", {}, lost, nullptr);
  }
  if (!result.lost.empty() && !dry_run) step("the offsets lost are listed in", path, result.list);
  if (!result.kept_in.empty()) step("the files as they were are kept in", path, result.kept_in);
  for (const auto& left : result.left) {
    is_text() ? line(left.file + ": left as it is: " + left.reason) : row("left", "damaged", left, nullptr);
  }
  if (!is_text()) return;
  std::string text = path + ": ";
  if (result.before == Verdict::clean) {
    text += "clean, nothing to repair";
  } else {
    text += (dry_run               ? "would be repaired, "
             : result.left.empty() ? "repaired, "
                                   : "not all repaired, ") +
            counted(static_cast<std::uint64_t>(count), "offset") + " lost";
  }
  line(text);
}

void VerifyOutput::summary(const std::string& path, Verdict verdict) {
  CheckResult result;
  result.verdict = verdict;
  summary(path, result, false);
}

}  // namespace partlog::cmd

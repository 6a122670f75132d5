// What `partlog verify` prints: a line for each finding, and one for each file or partition with the verdict.
#pragma once

#include <string>
#include <string_view>

#include "output.h"
#include "partlog/partition_check.h"
#include "partlog/partition_repair.h"
#include "row_output.h"

namespace partlog::cmd {

class VerifyOutput {
 public:
  VerifyOutput(Output& output, const Table::Style& style) : output_(output), style_(style), rows_(output, style, false) {}

  void finding(const CheckFinding& finding);
  void summary(const std::string& path, const CheckResult& result, bool is_directory);
  // What a repair did, or would do.
  void repaired(const std::string& path, const RepairResult& result, bool dry_run);
  void reindexed(const std::string& path, const RepairResult& result, bool dry_run);
  // Of what is not a log: its verdict alone.
  void summary(const std::string& path, Verdict verdict);

  // A listing of no rows has a header line, too.
  void finish();

  // Standard output takes nothing more.
  bool has_failed() const { return has_failed_; }

 private:
  void flush();
  bool is_text() const { return !style_.json && !style_.tsv; }
  void line(std::string_view text);
  void step(std::string_view type, const std::string& path, std::string_view reason);
  void row(std::string_view type, std::string_view verdict, const CheckFinding& finding, const CheckResult* counts);
  void number_or_null(const auto& value) { value ? rows_.number(value->value) : rows_.null(); }

  Output& output_;
  Table::Style style_;
  RowOutput rows_;
  bool has_failed_ = false;
  bool any_ = false;  // rows were written
};

// " of 12 segments" and the like are counted(); this is "offset 3", "offsets 3 to 5", "offsets from 3 on".
std::string offsets_text(const CheckFinding& finding);

std::string_view verdict_name(Verdict verdict);  // "clean", "torn tail", "damaged"

}  // namespace partlog::cmd

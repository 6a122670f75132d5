// What a repair did, as it writes it down for the next one, in case that has to tell of it: text lines of a word and its values.
#pragma once

#include <string>
#include <string_view>

#include "partlog/partition_repair.h"

namespace partlog::inspect {

std::string format_repair_report(const RepairResult& result);

// Without what it could not mend: that is found anew. A line that says nothing is passed over.
RepairResult parse_repair_report(std::string_view text, const std::string& partition_directory);

}  // namespace partlog::inspect

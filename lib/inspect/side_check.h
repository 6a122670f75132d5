// Checks one of the files beside segments by itself (the kinds that side_file.h knows).
#pragma once

#include <string>
#include <vector>

#include "partlog/partition_check.h"
#include "partlog/side_file.h"

namespace partlog::inspect {

// Error(not_found), Error(io).
std::vector<CheckFinding> check_side_file(const std::string& path, FileKind kind);

}  // namespace partlog::inspect

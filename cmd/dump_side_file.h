// `partlog dump` of the files beside segments: indexes, snapshots, checkpoints, text.
#pragma once

#include <string>

#include "partlog/side_file.h"
#include "row_output.h"

namespace partlog::cmd {

// Error(damaged), behind all that could be read.
void dump_side_file(const std::string& path, FileKind kind, RowOutput& rows);

}  // namespace partlog::cmd

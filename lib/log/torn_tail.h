// Tells a torn tail from damage (DESIGN: appending, step 3).
#pragma once

#include <cstdint>
#include <optional>

#include "os/file.h"
#include "partlog/types.h"

namespace partlog::log {

// A batch at `position` of a file is no valid one. If a chain of valid batches with rising offsets, none below `expected`, leads
// from a later byte exactly to the end of the file, somebody's whole batches follow: damage; the end offset behind that chain is
// returned. nullopt: nothing whole follows, this is what a writer that died left behind. Cost: one pass over what follows in
// windows, plus a checksum for each place that looks like a header whose lengths lead to the end.
std::optional<Offset> end_of_chain_behind(const os::File& file, std::int64_t position, Offset expected);

}  // namespace partlog::log

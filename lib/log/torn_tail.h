// Tells a torn tail from damage (DESIGN: appending, step 3).
#pragma once

#include <cstdint>
#include <optional>

#include "os/file.h"
#include "partlog/types.h"

namespace partlog::log {

// A batch at `position` of a file is no valid one. If a whole batch stands at a later byte (checksum right, offset not below
// `expected`), somebody's records follow: damage; the offset behind the last such batch with rising offsets is returned.
// nullopt: nothing whole follows, this is what a writer that died left behind.
//
// What such a writer leaves is the prefix of one batch, and a record in it may hold whole batches. If a header that may be right
// stands at `position` and its length leads beyond the end of the file, only batches that lead exactly to the end count.
//
// Cost: one pass over what follows, in windows, and a checksum for each place that looks like a header. Bytes made to look like
// many long batches are called damage (the end offset is then that of the batches found so far) once several times the size of
// the file has been summed.
std::optional<Offset> end_of_chain_behind(const os::File& file, std::int64_t position, Offset expected);

// The same question, answered as soon as it can be, with where the first such batch stands (the end of the file, if that was too
// costly to find out).
std::optional<std::int64_t> first_batch_behind(const os::File& file, std::int64_t position, Offset expected);

// The same, but batches with any offsets count if they lead to those, or to the end of the file.
std::optional<std::int64_t> first_of_any_behind(const os::File& file, std::int64_t position, Offset expected);

// Whether what stands at `position`, and is no valid batch, is a damaged one that ends with the file: its length leads there, or
// its checksum, since only what is in front of that is damaged. A writer that died leaves neither. Returns the offset behind it,
// as far as its header and its checksum tell: it begins with `expected` or behind a hole there, and has one record at least.
std::optional<Offset> next_behind_last(const os::File& file, std::int64_t position, Offset expected);

// Where what stands at `position`, and is no batch that belongs there, ends: where its checksum ends, if only what is in front of
// that is damaged; else where its header says, if there a sound batch begins or the file ends; else at the first sound batch
// behind it; else with the file.
std::int64_t end_of_damage(const os::File& file, std::int64_t position, Offset expected);

}  // namespace partlog::log

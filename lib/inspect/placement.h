// Which offsets the batches have that do not fit where they stand. Theirs stand outside of their checksums and may be damaged;
// or they are right, and it is the place in the files that is wrong.
#pragma once

#include <optional>
#include <vector>

#include "format/checkpoint.h"
#include "inspect/salvage.h"

namespace partlog::inspect {

// The epoch that the batch should have at this offset, if it has another. `epochs`: by ascending offsets.
std::optional<std::int32_t> epoch_to_be(const std::vector<format::EpochStart>& epochs, const BatchInfo& batch, Offset offset);

struct Evidence {
  const LogState& known;
  const std::vector<format::EpochStart>& epochs;
  const LostRanges& lost;  // listed by an earlier repair
};

// Whether nothing is missing between the two but what is listed as lost.
bool is_next(Offset end, Offset first, const LostRanges& lost);

// Decides for all runs, which are in the order of files and positions, and drops those of which nothing can be believed: a batch
// at an offset that it never had is worse than one that is listed as lost.
void place_runs(Salvage& salvage, const Evidence& evidence, const InspectOptions& options);

}  // namespace partlog::inspect

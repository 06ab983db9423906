// Merging: copies the live rows of several generations into one. Answers stay the same bit for bit,
// because slots change but ids do not.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"

namespace nearfield::corpus {

// Returns a copy of the live rows of `sources`, in the order of the sources and then by slot.
// Errors: ResourceExhausted, Unavailable.
absl::StatusOr<std::shared_ptr<const Generation>> Merge(
    const std::shared_ptr<Device>& device, const backend::RowFormat& format,
    const std::vector<const GenerationState*>& sources);

// Returns `states` with at most `generations_max` generations, after merges by ChooseMerge. Needs
// memory for the merged generations in addition to the old ones. Errors: ResourceExhausted (no
// memory even for the smallest merge; nothing changed), Unavailable (device lost).
absl::StatusOr<std::vector<GenerationState>> MergeDownTo(const std::shared_ptr<Device>& device,
                                                         const backend::RowFormat& format,
                                                         std::vector<GenerationState> states,
                                                         size_t generations_max);

}  // namespace nearfield::corpus

// Copies the live rows of several generations into one. Answers stay the same to the bit: slots
// change, ids do not.
#ifndef NEARFIELD_ENGINE_CORPUS_MERGE_H_
#define NEARFIELD_ENGINE_CORPUS_MERGE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"

namespace nearfield::corpus {

// A copy of the live rows of `sources`, in that order, each by slot. Errors: ResourceExhausted,
// Unavailable.
absl::StatusOr<std::shared_ptr<const Generation>> Merge(
    const std::shared_ptr<Device>& device, const RowFormat& format,
    const std::vector<const GenerationState*>& sources);

// The generations of `states` without a place more than `generations_max`: those it had, and merged
// ones in the place of others, merged by ChooseMerge. Needs memory for the new ones beside the old.
// Errors: ResourceExhausted (no memory even for the smallest merge; nothing has changed),
// Unavailable (device lost).
absl::StatusOr<std::vector<GenerationState>> MergeDownTo(const std::shared_ptr<Device>& device,
                                                         const RowFormat& format,
                                                         std::vector<GenerationState> states,
                                                         size_t generations_max);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_MERGE_H_

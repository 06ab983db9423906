// Chooses the generations to copy into one, and computes the list of generations with the copy
// (merge.h) in their place. Searches and changes continue meanwhile.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"

namespace nearfield::corpus {

// Returns the indices of the generations to copy into one now; empty if there is nothing to do.
// Generations with too many deleted rows come first, one in each call. Then, if there are too many
// generations, those of ChooseMerge.
std::vector<size_t> ChooseCompaction(const CorpusSnapshot& snapshot,
                                     const CompactionOptions& options);

struct CompactionStep {
  std::shared_ptr<const CorpusSnapshot> before;
  std::vector<size_t> indices;
  std::shared_ptr<const Generation> copy;
};
// Returns the list of `current` with `copy` in place of the generations that it was made from:
// those at `indices` of `before`. Rows that were deleted since are deleted in the copy too. Returns
// nullopt if one of these generations is gone. Errors: ResourceExhausted, Unavailable.
absl::StatusOr<std::optional<std::vector<GenerationState>>> Replace(const Device& device,
                                                                    const CorpusSnapshot& current,
                                                                    const CompactionStep& step);

}  // namespace nearfield::corpus

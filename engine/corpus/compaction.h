// Compaction: live rows of some generations copied into one, beside searches and changes.
#ifndef NEARFIELD_ENGINE_CORPUS_COMPACTION_H_
#define NEARFIELD_ENGINE_CORPUS_COMPACTION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"

namespace nearfield::corpus {

// Indices of the generations to copy into one now; empty where nothing is to be done. Those with
// too many deleted rows come first, each by itself; then, where there are too many, what
// ChooseMerge says.
std::vector<size_t> ChooseCompaction(const CorpusSnapshot& snapshot,
                                     const CompactionOptions& options);

// `current` with `copy`, made of the generations at `indices` of `before`, in their place: rows
// deleted since are deleted in the copy too. Nothing where one of them is gone by now. Errors:
// ResourceExhausted, Unavailable.
struct CompactionStep {
  std::shared_ptr<const CorpusSnapshot> before;
  std::vector<size_t> indices;
  std::shared_ptr<const Generation> copy;
};
absl::StatusOr<std::optional<std::vector<GenerationState>>> Replace(const Device& device,
                                                                    const CorpusSnapshot& current,
                                                                    const CompactionStep& step);

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_COMPACTION_H_

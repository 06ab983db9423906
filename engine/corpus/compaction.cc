#include "engine/corpus/compaction.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/change.h"
#include "engine/corpus/merge_policy.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

// Returns the share of rows whose memory a copy gives back: deleted ones, and those with a new
// payload, whose old one is still there.
double DeadShare(const GenerationState& state) {
  const int64_t updated = state.versions == nullptr ? 0 : state.versions->payloads_count();
  const auto rows_count = static_cast<double>(state.generation->rows_count());
  return 1.0 -
         static_cast<double>(state.rows_live - std::min(updated, state.rows_live)) / rows_count;
}

// Returns the generation of `snapshot` that has the same rows; null if it is gone.
const GenerationState* Find(const CorpusSnapshot& snapshot, const GenerationState& state) {
  for (const GenerationState& other : snapshot.generations) {
    if (other.generation == state.generation) return &other;
  }
  return nullptr;
}

}  // namespace

std::vector<size_t> ChooseCompaction(const CorpusSnapshot& snapshot,
                                     const CompactionOptions& options) {
  size_t worst = 0;
  for (size_t g = 1; g < snapshot.generations.size(); ++g) {
    if (DeadShare(snapshot.generations[g]) > DeadShare(snapshot.generations[worst])) worst = g;
  }
  if (!snapshot.generations.empty() &&
      DeadShare(snapshot.generations[worst]) > options.dead_share_max) {
    return {worst};
  }
  if (snapshot.generations.size() <= static_cast<size_t>(options.generations_max)) return {};
  std::vector<int64_t> rows_live;
  for (const GenerationState& state : snapshot.generations) rows_live.push_back(state.rows_live);
  return ChooseMerge(rows_live);
}

absl::StatusOr<std::optional<std::vector<GenerationState>>> Replace(const Device& device,
                                                                    const CorpusSnapshot& current,
                                                                    const CompactionStep& step) {
  std::vector<uint32_t> deleted;    // slots of the copy whose rows were deleted since
  std::vector<RowVersion> updated;  // rows of the copy that were updated since
  std::vector<const Generation*> sources;
  uint32_t slot_of_copy = 0;
  for (const size_t index : step.indices) {
    const GenerationState& before = step.before->generations[index];
    const GenerationState* const now = Find(current, before);
    if (now == nullptr) return std::nullopt;
    sources.push_back(before.generation.get());
    for (const uint32_t slot :
         LiveSlots(before.tombstones.get(), 0, before.generation->rows_count())) {
      if (IsDeleted(now->tombstones.get(), slot)) deleted.push_back(slot_of_copy);
      if (now->versions != before.versions && now->ordinal(slot) != before.ordinal(slot)) {
        updated.push_back(*now->versions->Find(slot));
        updated.back().slot = slot_of_copy;
      }
      ++slot_of_copy;
    }
  }
  CHECK_EQ(int64_t{slot_of_copy}, step.copy->rows_count());
  std::vector<GenerationState> generations;
  for (const GenerationState& state : current.generations) {
    const bool replaced =
        std::find(sources.begin(), sources.end(), state.generation.get()) != sources.end();
    if (!replaced) generations.push_back(state);
  }
  GenerationState copy = {
      .generation = step.copy, .tombstones = nullptr, .rows_live = step.copy->rows_count()};
  ABSL_ASSIGN_OR_RETURN(copy, WithoutSlots(device, copy, deleted));
  ABSL_ASSIGN_OR_RETURN(copy, WithVersions(device, copy, std::move(updated)));
  if (copy.rows_live > 0) generations.push_back(std::move(copy));
  return generations;
}

}  // namespace nearfield::corpus

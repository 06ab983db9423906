// Corpus::Update: changes of rows that stay where they are.
#include <utility>

#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/change.h"
#include "engine/corpus/corpus.h"

namespace nearfield::corpus {

absl::StatusOr<UpdateResult> Corpus::Update(const ChooseChanges& choose,
                                            const CommitHook& before_visible) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<UpdateResult> {
    ABSL_RETURN_IF_ERROR(device_->Check());
    const MutexLock change(change_mutex_);
    const std::shared_ptr<const PinnedEpoch> before = PinEpoch();
    ABSL_ASSIGN_OR_RETURN(const RowChanges changes, choose(before));
    if (changes.epochs > 0) return Apply(changes, before_visible);
    CHECK(changes.ids.empty());
    return UpdateResult{.epoch = before->epoch()};
  });
}

absl::StatusOr<UpdateResult> Corpus::Apply(const RowChanges& changes,
                                           const CommitHook& before_visible) {
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  const IdColumn no_ids(spec_.id_type);
  PendingChange pending = {.epoch = snapshot->epoch + static_cast<uint64_t>(changes.epochs),
                           .ids_removed = &no_ids};
  std::vector<GenerationState> generations = snapshot->generations;
  const int64_t rows_count = changes.ids.size();
  bool asked = false;  // the hook, which makes the ordinals the caller's
  if (rows_count > 0) {
    ABSL_ASSIGN_OR_RETURN(pending.first_ordinal, TakeOrdinals(rows_count));
  }
  const absl::Status shown = CatchOutOfMemory([&]() -> absl::Status {
    AssertChanging();
    if (rows_count > 0) {
      ABSL_ASSIGN_OR_RETURN(generations,
                            WithChanges(*device_, *snapshot, changes, pending.first_ordinal));
    }
    return Show(std::move(generations), pending, [&](const PendingChange& change) {
      asked = true;
      return before_visible ? before_visible(change) : absl::OkStatus();
    });
  });
  if (shown.ok()) return UpdateResult{.epoch = pending.epoch, .rows_updated = rows_count};
  if (!asked && rows_count > 0) ReleaseOrdinals(pending.first_ordinal, rows_count);
  return shown;
}

}  // namespace nearfield::corpus

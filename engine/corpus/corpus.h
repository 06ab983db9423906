// Corpus: all rows of one collection, as a snapshot that searches pin and that commits and
// deletions replace.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "engine/corpus/change.h"
#include "engine/corpus/device.h"
#include "engine/corpus/ordinal_pool.h"
#include "engine/corpus/row_selection.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/collection.h"

namespace nearfield::corpus {

// Checks the fields of `spec`. Errors: InvalidArgument (a field is out of range: reports its name,
// value and limit), FailedPrecondition (rows on the host, and the backend has no memory for them).
absl::Status CheckSpec(const CollectionSpec& spec, const backend::Backend& backend);

// Locks: `change_mutex_` serializes commits and deletions, including their checks and merges.
// `mutex_` guards pointers only: a search holds it to copy one pointer, and never waits for a
// change in progress.
class Corpus final : public Collection, public std::enable_shared_from_this<Corpus> {
 public:
  // Makes an empty corpus at `epoch`. Requires: CheckSpec(spec).ok(), 1 <= ordinals_max <= 2^32.
  static std::shared_ptr<Corpus> Make(const CollectionSpec& spec, std::shared_ptr<Device> device,
                                      uint64_t epoch, int64_t ordinals_max);

  const CollectionSpec& spec() const override { return spec_; }
  CollectionStats Stats() const override;
  absl::StatusOr<HeldBytes> UploadBytes(const UploadReservation& reservation) const override;
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) override;
  using Collection::Delete;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids,
                                      const CommitHook& before_visible) override;
  absl::StatusOr<DeleteResult> DeleteRows(const RowFilter& rows,
                                          const CommitHook& before_visible) override;
  absl::StatusOr<UpdateResult> Update(const ChooseChanges& choose,
                                      const CommitHook& before_visible) override;
  absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* at) const override;
  absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* at, const IdColumn& ids) const override;
  absl::StatusOr<int64_t> CountRows(const PinnedEpoch* at, const RowFilter& rows) const override;
  absl::StatusOr<CompactionResult> Compact(const CompactionOptions& options) override;
  using Collection::Fetch;
  absl::StatusOr<FetchResult> Fetch(const PinnedEpoch* at, const IdColumn& ids,
                                    RowParts parts) const override;
  absl::StatusOr<FetchResult> FetchChosen(const PinnedEpoch* at, const RowFilter& rows,
                                          RowParts parts) const override;
  absl::StatusOr<OrderedRows> ReadInOrder(const OrderedRead& read) const override;

  const std::shared_ptr<Device>& device() const { return device_; }
  backend::RowFormat format() const;
  int64_t row_bytes() const { return int64_t{spec_.dim} * BytesPerElement(spec_.row_type); }

  std::shared_ptr<const PinnedEpoch> PinEpoch() const override;
  PinnedEpochs ReachableEpochs() const override;
  HeldBytes BytesHeldBy(const PinnedEpochs& epochs) const override;

  // Returns the rows of a snapshot that `filter` (null: all) chooses. Errors: ResourceExhausted (no
  // device memory for one bit for each row).
  absl::StatusOr<SearchedRows> Searched(const std::shared_ptr<const CorpusSnapshot>& snapshot,
                                        const std::shared_ptr<const RowFilter>& filter) const;

  // Returns the snapshot of `epoch` (null: the current one). Errors: InvalidArgument (`epoch` is of
  // another collection).
  absl::StatusOr<std::shared_ptr<const CorpusSnapshot>> At(const PinnedEpoch* epoch) const;

  // Takes ordinals for the rows of an upload and returns the first. Errors: as OrdinalPool::Take.
  absl::StatusOr<uint32_t> TakeOrdinals(int64_t rows_count) { return ordinals_.Take(rows_count); }
  void ReleaseOrdinals(uint32_t first, int64_t rows_count) noexcept override {
    ordinals_.Release(first, rows_count);
  }

  // Returns the current snapshot. It does not change while it is held.
  std::shared_ptr<const CorpusSnapshot> Pin() const;

  // Makes the rows of `generation` (null: none) visible at epoch + 1. Merges first if there are too
  // many generations. Errors: as Upload::Commit; nothing changed then.
  absl::StatusOr<CommitResult> Publish(std::shared_ptr<const Generation> generation,
                                       UploadMode mode, const CommitHook& before_visible);

 private:
  Corpus(const CollectionSpec& spec, std::shared_ptr<Device> device, uint64_t epoch,
         int64_t ordinals_max);

  absl::Status CheckIdType(const IdColumn& ids) const;
  // Publishes the result of `without` for the current snapshot.
  using Reduction = absl::FunctionRef<absl::StatusOr<Remainder>(const CorpusSnapshot& snapshot)>;
  absl::StatusOr<DeleteResult> Reduce(Reduction without, const CommitHook& before_visible);
  absl::StatusOr<UpdateResult> Apply(const RowChanges& changes, const CommitHook& before_visible)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  absl::StatusOr<CompactionResult> CompactOnce(const CompactionOptions& options);
  absl::StatusOr<FetchResult> FetchRows(const PinnedEpoch* at, const IdColumn& ids,
                                        const RowParts& parts) const;
  // Copies the parts of rows. Errors: ResourceExhausted (more than parts.bytes_max).
  absl::StatusOr<FetchResult> CopyChecked(const CorpusSnapshot& snapshot,
                                          absl::Span<const RowRef> rows,
                                          const RowParts& parts) const;
  absl::StatusOr<OrderedRows> ReadRowsInOrder(const OrderedRead& read) const;
  // Makes `change` and `generations` visible after the hook has succeeded.
  absl::Status Show(std::vector<GenerationState> generations, const PendingChange& change,
                    const CommitHook& before_visible) ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  // Does nothing; clang then assumes that the mutex is held. For lambdas.
  void AssertChanging() const ABSL_ASSERT_EXCLUSIVE_LOCK(change_mutex_) {}
  // Reserves an entry for the snapshot that the next Swap replaces.
  void PrepareSwap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);
  // Replaces the snapshot. Does not allocate, because the hook has committed. Requires: a
  // call of PrepareSwap.
  void Swap(std::shared_ptr<const CorpusSnapshot> next) noexcept
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(change_mutex_);

  const CollectionSpec spec_;
  const std::shared_ptr<Device> device_;
  const ScanPrecision scan_;
  OrdinalPool ordinals_;
  mutable RowSelectionCache selections_;
  Mutex compaction_mutex_ ABSL_ACQUIRED_BEFORE(change_mutex_);  // one compaction at a time
  Mutex change_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  // Replaced only while change_mutex_ is held too.
  std::shared_ptr<const CorpusSnapshot> snapshot_ ABSL_GUARDED_BY(mutex_);
  // Earlier snapshots, until their last holder releases them.
  std::vector<std::weak_ptr<const CorpusSnapshot>> replaced_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::corpus

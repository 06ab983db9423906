// ForwardingCollection: passes every call on to another collection. A test overrides the calls that
// it watches or changes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "nearfield/engine/collection.h"

namespace nearfield::testing {

class ForwardingCollection : public Collection {
 public:
  explicit ForwardingCollection(std::shared_ptr<Collection> target) : target_(std::move(target)) {}
  const std::shared_ptr<Collection>& target() const { return target_; }

  const CollectionSpec& spec() const override { return target_->spec(); }
  CollectionStats Stats() const override { return target_->Stats(); }
  std::shared_ptr<const PinnedEpoch> PinEpoch() const override { return target_->PinEpoch(); }
  PinnedEpochs ReachableEpochs() const override { return target_->ReachableEpochs(); }
  HeldBytes BytesHeldBy(const PinnedEpochs& epochs) const override {
    return target_->BytesHeldBy(epochs);
  }
  absl::StatusOr<HeldBytes> UploadBytes(const UploadReservation& reservation) const override {
    return target_->UploadBytes(reservation);
  }
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) override {
    return target_->BeginUpload(reservation);
  }
  using Collection::Delete;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids,
                                      const CommitHook& before_visible) override {
    return target_->Delete(ids, before_visible);
  }
  absl::StatusOr<DeleteResult> DeleteRows(const RowFilter& rows,
                                          const CommitHook& before_visible) override {
    return target_->DeleteRows(rows, before_visible);
  }
  absl::StatusOr<UpdateResult> Update(const ChooseChanges& choose,
                                      const CommitHook& before_visible) override {
    return target_->Update(choose, before_visible);
  }
  absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* at) const override {
    return target_->LiveRows(at);
  }
  absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* at, const IdColumn& ids) const override {
    return target_->RowsWithIds(at, ids);
  }
  absl::StatusOr<int64_t> CountRows(const PinnedEpoch* at, const RowFilter& rows) const override {
    return target_->CountRows(at, rows);
  }
  void ReleaseOrdinals(uint32_t first, int64_t rows_count) noexcept override {
    target_->ReleaseOrdinals(first, rows_count);
  }
  absl::StatusOr<CompactionResult> Compact(const CompactionOptions& options) override {
    return target_->Compact(options);
  }
  using Collection::Fetch;
  absl::StatusOr<FetchResult> Fetch(const PinnedEpoch* at, const IdColumn& ids,
                                    RowParts parts) const override {
    return target_->Fetch(at, ids, parts);
  }
  absl::StatusOr<FetchResult> FetchChosen(const PinnedEpoch* at, const RowFilter& rows,
                                          RowParts parts) const override {
    return target_->FetchChosen(at, rows, parts);
  }
  absl::StatusOr<OrderedRows> ReadInOrder(const OrderedRead& read) const override {
    return target_->ReadInOrder(read);
  }

 private:
  const std::shared_ptr<Collection> target_;
};

}  // namespace nearfield::testing

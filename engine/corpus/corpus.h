// The corpus of one collection: a snapshot that searches pin, and the commits and deletions that
// replace it.
#ifndef NEARFIELD_ENGINE_CORPUS_CORPUS_H_
#define NEARFIELD_ENGINE_CORPUS_CORPUS_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/corpus/device.h"
#include "engine/corpus/snapshot.h"
#include "nearfield/engine/collection.h"

namespace nearfield::corpus {

// Errors: InvalidArgument (a field out of range: names it, its value and the limit).
absl::Status CheckSpec(const CollectionSpec& spec);

// Two locks. `change_mutex_` makes commits and deletions follow one another, checks and merges
// included. `mutex_` guards the pointer alone: a search holds it for one copy and never waits for a
// change in the making.
class Corpus final : public Collection, public std::enable_shared_from_this<Corpus> {
 public:
  // Requires CheckSpec(spec).ok().
  static std::shared_ptr<Corpus> Make(const CollectionSpec& spec, std::shared_ptr<Device> device);

  const CollectionSpec& spec() const override { return spec_; }
  CollectionStats Stats() const override;
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(
      const UploadReservation& reservation) override;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& ids) override;
  absl::StatusOr<FetchResult> Fetch(const IdColumn& ids, RowParts parts) const override;

  const std::shared_ptr<Device>& device() const { return device_; }
  RowFormat format() const;
  int64_t row_bytes() const { return int64_t{spec_.dim} * BytesPerElement(spec_.row_type); }

  // The current state; it stays as it is for as long as it is held.
  std::shared_ptr<const CorpusSnapshot> Pin() const;

  // Makes the rows of `generation` visible, merging first where there are too many generations;
  // epoch + 1. Errors: AlreadyExists (an id of a live row), ResourceExhausted (no memory to merge),
  // Unavailable. Then nothing changed.
  absl::StatusOr<CommitResult> Publish(std::shared_ptr<const Generation> generation);

 private:
  Corpus(const CollectionSpec& spec, std::shared_ptr<Device> device);

  absl::Status CheckIdType(const IdColumn& ids) const;
  absl::StatusOr<DeleteResult> DeleteRows(const IdColumn& ids);
  absl::StatusOr<FetchResult> FetchRows(const IdColumn& ids, const RowParts& parts) const;
  // Replaces the snapshot by one of the next epoch, and returns that epoch. Requires change_mutex_.
  uint64_t Swap(std::vector<GenerationState> generations);

  const CollectionSpec spec_;
  const std::shared_ptr<Device> device_;
  std::mutex change_mutex_;
  mutable std::mutex mutex_;
  std::shared_ptr<const CorpusSnapshot> snapshot_;  // guarded by mutex_; replaced under both
};

}  // namespace nearfield::corpus

#endif  // NEARFIELD_ENGINE_CORPUS_CORPUS_H_

// CorpusUpload: one running upload into a Corpus.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/corpus/generation.h"
#include "nearfield/engine/collection.h"

namespace nearfield::corpus {

class Corpus;

class CorpusUpload final : public Upload {
 public:
  // Reserves all memory of `reservation`. Errors: InvalidArgument, ResourceExhausted, as
  // Returns the host memory that an upload reserves when it begins. Errors: as
  // Collection::UploadBytes.
  static absl::StatusOr<int64_t> HostBytesOf(const CollectionSpec& spec,
                                             const UploadReservation& reservation);
  // Collection::BeginUpload.
  static absl::StatusOr<std::unique_ptr<Upload>> Begin(std::shared_ptr<Corpus> corpus,
                                                       const UploadReservation& reservation);

  absl::Status Append(const UploadBlock& block) override;
  absl::StatusOr<uint32_t> TakeOrdinals() override;
  using Upload::Commit;
  absl::StatusOr<CommitResult> Commit(const CommitHook& before_visible) override;

 private:
  CorpusUpload(std::shared_ptr<Corpus> corpus, const UploadReservation& reservation,
               GenerationParts parts);

  absl::Status CheckOpen() const;
  absl::Status CheckBlock(const UploadBlock& block) const;
  absl::Status CheckRows(const UploadBlock& block) const;
  absl::Status CheckIds(const IdColumn& ids) const;
  absl::Status CheckPayloads(const UploadBlock& block) const;
  absl::Status Take(const UploadBlock& block);
  // Makes `parts` visible. Requires: first_ordinal_ is set if there are rows.
  absl::StatusOr<CommitResult> Publish(GenerationParts parts, const CommitHook& before_visible);

  const std::shared_ptr<Corpus> corpus_;
  const UploadReservation reservation_;
  GenerationParts parts_;
  std::optional<uint32_t> first_ordinal_;
  bool open_ = true;  // false after an error or a commit
};

}  // namespace nearfield::corpus

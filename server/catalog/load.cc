#include "server/catalog/load.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/catalog/attributes/chunk.h"

namespace nearfield::server {
namespace {

// Room for the payloads: what is left of the stored bytes without the vectors.
int64_t PayloadBytesMax(const store::StoredCollection& stored) {
  const int64_t row_bytes = int64_t{stored.spec.dim} * BytesPerElement(stored.spec.row_type);
  return std::max<int64_t>(0, stored.bytes - stored.rows_stored * row_bytes);
}

// The attributes of a collection that nobody sees yet: indexed as they come, so that no more than a
// chunk of them lies beside its index.
class LoadedAttributes {
 public:
  explicit LoadedAttributes(CollectionAttributes* to) : to_(to) { Begin(); }

  absl::Status Append(const store::StoredBlock& block) {
    const int64_t rows_count = block.ids->size();
    if (part_->rows_count() + rows_count > AttributeChunk::kRowsMax) ABSL_RETURN_IF_ERROR(Index());
    return part_->AppendStored(rows_count, block.attributes);
  }

  // What was appended since.
  absl::Status Index() {
    const auto rows_count = static_cast<uint32_t>(part_->rows_count());
    ABSL_RETURN_IF_ERROR(part_->Add(next_ordinal_));
    part_->Settle(true);
    next_ordinal_ += rows_count;
    Begin();
    return absl::OkStatus();
  }

 private:
  void Begin() { part_.emplace(to_, AttributeLimit::kNotes); }

  CollectionAttributes* const to_;
  std::optional<AttributeUpload> part_;
  uint32_t next_ordinal_ = 0;  // the first rows of a collection are numbered from 0
};

absl::Status LoadRows(Collection& to, LoadedAttributes& attributes, const store::Store& from,
                      const store::StoredCollection& stored, const store::LoadOptions& options) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Upload> upload,
                        to.BeginUpload({.rows_max = stored.rows_count,
                                        .payload_bytes_max = PayloadBytesMax(stored),
                                        .values_reserved = false}));
  const auto append = [&](const store::StoredBlock& block) -> absl::Status {
    ABSL_RETURN_IF_ERROR(attributes.Append(block));
    return upload->Append({.ids = block.ids, .rows = block.rows, .payloads = block.payloads});
  };
  ABSL_RETURN_IF_ERROR(from.Load(stored.id, append, options));
  ABSL_RETURN_IF_ERROR(attributes.Index());
  ABSL_ASSIGN_OR_RETURN(const CommitResult result, upload->Commit());
  if (result.epoch == stored.epoch && result.rows_count == stored.rows_count) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("loaded ", result.rows_count, " rows at epoch ",
                                          result.epoch, "; the catalogue has ", stored.rows_count,
                                          " at ", stored.epoch));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Engine& engine, const store::Store& from,
                                                           const store::StoredCollection& stored,
                                                           const store::LoadOptions& options,
                                                           CollectionAttributes* attributes) {
  const bool empty = stored.rows_count == 0;
  // Its rows arrive as one commit, which leads to the epoch they were last seen at.
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                        engine.CreateCollection(stored.spec, stored.epoch - (empty ? 0 : 1)));
  if (empty) return collection;
  LoadedAttributes indexed(attributes);
  const absl::Status loaded = LoadRows(*collection, indexed, from, stored, options);
  if (absl::IsResourceExhausted(loaded) || absl::IsAlreadyExists(loaded)) {
    const bool fits_not = absl::IsResourceExhausted(loaded);
    return absl::Status(
        fits_not ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kDataLoss,
        absl::StrCat("the collection cannot be loaded: ", loaded.message()));
  }
  if (!loaded.ok()) return loaded;
  return collection;
}

}  // namespace nearfield::server

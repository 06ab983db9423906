#include "server/collections/load.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "server/attributes/chunk.h"

namespace nearfield::server {
namespace {

// Host memory for each row, while an upload builds a generation and after it is built, without the
// bytes of string ids and payloads: see engine/corpus/generation.cc.
constexpr double kUploadRowBytes = 44;
constexpr double kServedRowBytes = 14;

// Returns the payload bytes to reserve: the stored bytes, also of new payloads, without the
// vectors.
int64_t PayloadBytesMax(const store::StoredCollection& stored) {
  const int64_t row_bytes = int64_t{stored.spec.dim} * BytesPerElement(stored.spec.row_type);
  return std::max<int64_t>(0, stored.bytes - stored.rows_stored * row_bytes) + stored.patch_bytes;
}

// The attributes of a collection that is not visible yet. They are indexed as they arrive, so that
// at most one chunk exists in addition to its index.
class LoadedAttributes {
 public:
  explicit LoadedAttributes(CollectionAttributes* to) : to_(to) { Begin(); }

  absl::Status Append(const store::StoredBlock& block) {
    const int64_t rows_count = block.ids->size();
    if (part_->rows_count() + rows_count > AttributeChunk::kRowsMax) ABSL_RETURN_IF_ERROR(Index());
    return part_->AppendStored(rows_count, block.attributes);
  }

  // Indexes the rows appended since the last call.
  absl::Status Index() {
    const auto rows_count = static_cast<uint32_t>(part_->rows_count());
    ABSL_RETURN_IF_ERROR(part_->Add(next_ordinal_));
    part_->Finalize(true);
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

// Returns the sizes of the uploads that load `stored`, one after the other. An upload needs up to
// three times the host memory per row that its rows need afterwards. So each upload except the last
// takes a third of the remaining rows: the loaded rows and the next upload together then never need
// more than all rows need at the end. Returns one upload if memory allows, else as few as this rule
// allows.
std::vector<int64_t> PartsOf(const store::StoredCollection& stored, int64_t host_bytes_free) {
  const auto rows = static_cast<double>(stored.rows_count);
  const double value_bytes = static_cast<double>(PayloadBytesMax(stored)) * rows /
                             static_cast<double>(std::max<int64_t>(stored.rows_stored, 1));
  const double served = rows * kServedRowBytes + value_bytes;
  const double added = rows * (kUploadRowBytes - kServedRowBytes) + value_bytes;
  std::vector<int64_t> parts;
  int64_t left = stored.rows_count;
  const auto last_fits = [&] {
    const double share = static_cast<double>(left) / rows;
    return left <= kRowsMax && served + added * share <= static_cast<double>(host_bytes_free);
  };
  while (parts.size() + 1 < size_t{kGenerationsMax} && !last_fits()) {
    parts.push_back(std::min<int64_t>(CeilDiv(left, 3), kRowsMax));
    left -= parts.back();
    if (left == 0) return parts;
  }
  parts.push_back(left);
  return parts;
}

// Rows [begin, begin + count) of a block, copied.
struct BlockSlice {
  BlockSlice(const store::StoredBlock& block, int64_t begin, int64_t count)
      : ids(block.ids->type()) {
    for (int64_t i = begin; i < begin + count; ++i) {
      ids.AppendFrom(*block.ids, i);
      if (block.payloads != nullptr) payloads.Append(block.payloads->at(i));
    }
    const size_t row_bytes = block.rows.size() / static_cast<size_t>(block.ids->size());
    rows = block.rows.subspan(static_cast<size_t>(begin) * row_bytes,
                              static_cast<size_t>(count) * row_bytes);
  }
  UploadBlock View() const {
    return {.ids = &ids, .rows = rows, .payloads = payloads.size() > 0 ? &payloads : nullptr};
  }

  IdColumn ids;
  BytesColumn payloads;
  absl::Span<const uint8_t> rows;
};

// Uploads the rows of a collection in parts of given sizes.
class LoadedRows {
 public:
  LoadedRows(Collection* to, std::vector<int64_t> parts, int64_t payload_bytes_max)
      : to_(to), parts_(std::move(parts)), payload_bytes_max_(payload_bytes_max) {}

  absl::Status Append(const store::StoredBlock& block) {
    const int64_t rows_count = block.ids->size();
    for (int64_t begin = 0; begin < rows_count;) {
      if (room_ == 0) ABSL_RETURN_IF_ERROR(NextPart());
      const int64_t count = std::min(room_, rows_count - begin);
      room_ -= count;
      if (count == rows_count) {
        return upload_->Append({.ids = block.ids, .rows = block.rows, .payloads = block.payloads});
      }
      ABSL_RETURN_IF_ERROR(upload_->Append(BlockSlice(block, begin, count).View()));
      begin += count;
    }
    return absl::OkStatus();
  }

  // Makes the last part visible. Returns the number of all rows, and the epoch that shows them.
  absl::StatusOr<CommitResult> Commit() {
    ABSL_RETURN_IF_ERROR(CommitPart());
    return loaded_;
  }

 private:
  absl::Status CommitPart() {
    if (upload_ == nullptr) return absl::OkStatus();
    ABSL_ASSIGN_OR_RETURN(const CommitResult part, upload_->Commit());
    upload_ = nullptr;
    loaded_.epoch = part.epoch;
    loaded_.rows_count += part.rows_count;
    return absl::OkStatus();
  }

  absl::Status NextPart() {
    ABSL_RETURN_IF_ERROR(CommitPart());
    if (next_part_ == parts_.size()) {
      return absl::DataLossError(
          absl::StrCat("more rows than the ", loaded_.rows_count, " that the catalog has"));
    }
    room_ = parts_[next_part_++];
    ABSL_ASSIGN_OR_RETURN(upload_, to_->BeginUpload({.rows_max = room_,
                                                     .payload_bytes_max = payload_bytes_max_,
                                                     .values_reserved = false}));
    return absl::OkStatus();
  }

  Collection* const to_;
  const std::vector<int64_t> parts_;
  const int64_t payload_bytes_max_;
  size_t next_part_ = 0;
  int64_t room_ = 0;  // rows that fit in the current part
  std::unique_ptr<Upload> upload_;
  CommitResult loaded_;
};

absl::Status LoadRows(LoadedRows& rows, LoadedAttributes& attributes, const store::Store& from,
                      const store::StoredCollection& stored, const store::LoadOptions& options) {
  const auto append = [&](const store::StoredBlock& block) -> absl::Status {
    ABSL_RETURN_IF_ERROR(attributes.Append(block));
    return rows.Append(block);
  };
  ABSL_RETURN_IF_ERROR(from.Load(stored.id, append, options));
  ABSL_RETURN_IF_ERROR(attributes.Index());
  ABSL_ASSIGN_OR_RETURN(const CommitResult result, rows.Commit());
  if (result.epoch == stored.epoch && result.rows_count == stored.rows_count) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("loaded ", result.rows_count, " rows at epoch ",
                                          result.epoch, "; the catalog has ", stored.rows_count,
                                          " at ", stored.epoch));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Collection>> LoadCollection(Engine& engine, const store::Store& from,
                                                           const store::StoredCollection& stored,
                                                           const store::LoadOptions& options,
                                                           CollectionAttributes* attributes) {
  std::vector<int64_t> parts;
  if (stored.rows_count > 0) {
    const Capacity capacity = engine.GetCapacity();
    parts = PartsOf(stored, capacity.host_bytes_total - capacity.host_bytes_used);
  }
  // Each part is a commit, and the last one must lead to the stored epoch. For a young collection
  // the first epochs are below 0, modulo 2^64; no reader sees them.
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                        engine.CreateCollection(stored.spec, stored.epoch - parts.size()));
  if (parts.empty()) return collection;
  LoadedAttributes indexed(attributes);
  LoadedRows rows(collection.get(), std::move(parts), PayloadBytesMax(stored));
  const absl::Status loaded = LoadRows(rows, indexed, from, stored, options);
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

#include "engine/corpus/corpus.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/merge.h"
#include "engine/corpus/tombstone_words.h"
#include "engine/corpus/upload.h"

namespace nearfield::corpus {
namespace {

// Errors: AlreadyExists where a live row of `snapshot` has an id of `generation`.
absl::Status CheckNew(const Generation& generation, const CorpusSnapshot& snapshot) {
  absl::Status status;
  ForEachLive(snapshot, generation.ordered_ids(), [&](uint32_t slot, const RowRef&) {
    status = absl::AlreadyExistsError(
        absl::StrCat("id ", IdText(generation.ids.at(slot)), " is already in the collection"));
    return false;
  });
  return status;
}

// `state` without the rows at `slots` (live, some perhaps twice).
absl::StatusOr<GenerationState> WithoutRows(const Device& device, const GenerationState& state,
                                            absl::Span<const uint32_t> slots) {
  GenerationState result = state;
  std::vector<uint64_t> words = CopyWords(state.tombstones.get(), state.generation->rows_count());
  for (const uint32_t slot : slots) {
    if (IsDeleted(words, slot)) continue;
    words[slot / 64] |= uint64_t{1} << (slot % 64);
    --result.rows_live;
  }
  if (result.rows_live == 0) return result;  // the whole generation goes
  auto tombstones = device.backend().MakeTombstones(std::move(words));
  if (!tombstones.ok()) return device.Observe(tombstones.status());
  result.tombstones = *std::move(tombstones);
  return result;
}

}  // namespace

absl::Status CheckSpec(const CollectionSpec& spec) {
  if (spec.dim < 1 || spec.dim > kDimMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim = ", spec.dim, " is out of range: 1 to ", kDimMax));
  }
  if (spec.metric != Metric::kDot && spec.metric != Metric::kCosine && spec.metric != Metric::kL2) {
    return absl::InvalidArgumentError(
        absl::StrCat("metric = ", static_cast<int>(spec.metric), " is none: dot, cosine or l2"));
  }
  if (spec.row_type != RowType::kFloat32 && spec.row_type != RowType::kFloat16 &&
      spec.row_type != RowType::kBFloat16) {
    return absl::InvalidArgumentError(absl::StrCat("row_type = ", static_cast<int>(spec.row_type),
                                                   " is none: fp32, fp16 or bf16"));
  }
  if (spec.id_type != IdType::kUint64 && spec.id_type != IdType::kString) {
    return absl::InvalidArgumentError(
        absl::StrCat("id_type = ", static_cast<int>(spec.id_type), " is none: uint64 or string"));
  }
  return absl::OkStatus();
}

Corpus::Corpus(const CollectionSpec& spec, std::shared_ptr<Device> device)
    : spec_(spec),
      device_(std::move(device)),
      snapshot_(std::make_shared<const CorpusSnapshot>()) {}

std::shared_ptr<Corpus> Corpus::Make(const CollectionSpec& spec, std::shared_ptr<Device> device) {
  return std::shared_ptr<Corpus>(new Corpus(spec, std::move(device)));
}

RowFormat Corpus::format() const {
  return {.dim = spec_.dim, .metric = spec_.metric, .row_type = spec_.row_type};
}

std::shared_ptr<const CorpusSnapshot> Corpus::Pin() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return snapshot_;
}

uint64_t Corpus::Swap(std::vector<GenerationState> generations) {
  auto next = std::make_shared<CorpusSnapshot>();
  next->epoch = Pin()->epoch + 1;
  next->generations = std::move(generations);
  const uint64_t epoch = next->epoch;
  std::shared_ptr<const CorpusSnapshot> swapped = std::move(next);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    snapshot_.swap(swapped);
  }
  return epoch;  // the old snapshot, and perhaps the last hold on a generation, ends here: unlocked
}

CollectionStats Corpus::Stats() const {
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  CollectionStats stats;
  stats.epoch = snapshot->epoch;
  stats.rows_count = snapshot->rows_live();
  stats.generations_count = static_cast<int32_t>(snapshot->generations.size());
  for (const GenerationState& state : snapshot->generations) {
    stats.rows_deleted += state.generation->rows_count() - state.rows_live;
    stats.device_bytes += state.generation->planes->device_bytes();
    stats.host_bytes += state.generation->host.bytes();
  }
  return stats;
}

absl::StatusOr<std::unique_ptr<Upload>> Corpus::BeginUpload(const UploadReservation& reservation) {
  ABSL_RETURN_IF_ERROR(device_->Check());
  return CorpusUpload::Begin(shared_from_this(), reservation);
}

absl::StatusOr<CommitResult> Corpus::Publish(std::shared_ptr<const Generation> generation) {
  const std::lock_guard<std::mutex> change(change_mutex_);
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  ABSL_RETURN_IF_ERROR(CheckNew(*generation, *snapshot));
  ABSL_ASSIGN_OR_RETURN(
      std::vector<GenerationState> generations,
      MergeDownTo(device_, format(), snapshot->generations, size_t{kGenerationsMax} - 1));
  const int64_t rows_count = generation->rows_count();
  generations.push_back(
      {.generation = std::move(generation), .tombstones = nullptr, .rows_live = rows_count});
  return CommitResult{.epoch = Swap(std::move(generations)), .rows_count = rows_count};
}

absl::StatusOr<DeleteResult> Corpus::Delete(const IdColumn& ids) {
  return CatchOutOfMemory([&] { return DeleteRows(ids); });
}

absl::StatusOr<FetchResult> Corpus::Fetch(const IdColumn& ids, RowParts parts) const {
  return CatchOutOfMemory([&] { return FetchRows(ids, parts); });
}

absl::StatusOr<DeleteResult> Corpus::DeleteRows(const IdColumn& ids) {
  ABSL_RETURN_IF_ERROR(device_->Check());
  ABSL_RETURN_IF_ERROR(CheckIdType(ids));
  const std::lock_guard<std::mutex> change(change_mutex_);
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  std::vector<std::vector<uint32_t>> slots(snapshot->generations.size());
  bool any = false;
  for (const std::optional<RowRef>& ref : Locate(*snapshot, ids)) {
    if (!ref) continue;
    slots[ref->generation].push_back(ref->slot);
    any = true;
  }
  if (!any) return DeleteResult{.epoch = snapshot->epoch, .rows_deleted = 0};

  std::vector<GenerationState> generations;
  int64_t rows_live = 0;
  for (size_t g = 0; g < slots.size(); ++g) {
    GenerationState state = snapshot->generations[g];
    if (!slots[g].empty()) {
      ABSL_ASSIGN_OR_RETURN(state, WithoutRows(*device_, state, slots[g]));
    }
    rows_live += state.rows_live;
    if (state.rows_live > 0) generations.push_back(std::move(state));
  }
  const int64_t rows_deleted = snapshot->rows_live() - rows_live;
  return DeleteResult{.epoch = Swap(std::move(generations)), .rows_deleted = rows_deleted};
}

absl::StatusOr<FetchResult> Corpus::FetchRows(const IdColumn& ids, const RowParts& parts) const {
  ABSL_RETURN_IF_ERROR(device_->Check());
  ABSL_RETURN_IF_ERROR(CheckIdType(ids));
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  FetchResult result;
  result.epoch = snapshot->epoch;
  result.ids = IdColumn(spec_.id_type);
  std::vector<RowCopy> copies;
  const std::vector<std::optional<RowRef>> rows = Locate(*snapshot, ids);
  int64_t bytes = 0;
  for (const std::optional<RowRef>& ref : rows) {
    if (ref) bytes += PartBytes(*snapshot, *ref, row_bytes(), parts);
  }
  ABSL_RETURN_IF_ERROR(CheckPartBytes(bytes, parts));
  for (const std::optional<RowRef>& ref : rows) {
    if (!ref) continue;
    const Generation& generation = *snapshot->generations[ref->generation].generation;
    copies.push_back({.row = *ref});
    result.ids.AppendFrom(generation.ids, ref->slot);
    if (parts.payloads) result.payloads.Append(generation.payload(ref->slot));
  }
  if (parts.vectors) {
    const auto row_size = static_cast<size_t>(row_bytes());
    result.rows.resize(copies.size() * row_size);
    for (size_t i = 0; i < copies.size(); ++i) copies[i].to = result.rows.data() + i * row_size;
    ABSL_RETURN_IF_ERROR(ReadRows(*snapshot, copies, row_bytes()));
  }
  return result;
}

absl::Status Corpus::CheckIdType(const IdColumn& ids) const {
  if (ids.size() > kRowsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids: ", ids.size(), " ids in one call; at most ", kRowsMax));
  }
  if (ids.type() == spec_.id_type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      spec_.id_type == IdType::kUint64
          ? "ids: string ids given; the ids of this collection are uint64"
          : "ids: uint64 ids given; the ids of this collection are strings");
}

}  // namespace nearfield::corpus

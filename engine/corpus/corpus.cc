#include "engine/corpus/corpus.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/compaction.h"
#include "engine/corpus/id_order.h"
#include "engine/corpus/merge.h"
#include "engine/corpus/upload.h"

namespace nearfield::corpus {

absl::Status CheckSpec(const CollectionSpec& spec, const backend::Backend& backend) {
  ABSL_RETURN_IF_ERROR(CheckRange("dim", spec.dim, 1, kDimMax));
  ABSL_RETURN_IF_ERROR(CheckOneOf(
      "metric", spec.metric, {Metric::kDot, Metric::kCosine, Metric::kL2}, "dot, cosine or l2"));
  ABSL_RETURN_IF_ERROR(CheckOneOf("row_type", spec.row_type,
                                  {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16},
                                  "float32, float16 or bfloat16"));
  ABSL_RETURN_IF_ERROR(
      CheckOneOf("id_type", spec.id_type, {IdType::kUint64, IdType::kString}, "uint64 or string"));
  ABSL_RETURN_IF_ERROR(
      CheckOneOf("scan", spec.scan,
                 {ScanChoice::kAuto, ScanChoice::kInt8, ScanChoice::kInt16, ScanChoice::kRows},
                 "auto, int8, int16 or rows"));
  ABSL_RETURN_IF_ERROR(CheckOneOf("rows", spec.rows, {RowPlacement::kDevice, RowPlacement::kHost},
                                  "device or host"));
  ABSL_RETURN_IF_ERROR(CheckRange("devices", spec.devices, 0, kDevicesMax));
  if (spec.rows == RowPlacement::kHost && spec.scan == ScanChoice::kRows) {
    return absl::InvalidArgumentError(
        "scan = rows: a collection that keeps its rows on the host needs codes to scan: int8, "
        "int16 or auto");
  }
  if (spec.rows == RowPlacement::kHost && spec.dim > backend.info().scan_dim_max) {
    return absl::FailedPreconditionError(
        absl::StrCat("dim = ", spec.dim, ", must be at most ", backend.info().scan_dim_max,
                     " on this device for a collection that keeps its rows on the host"));
  }
  if (spec.rows == RowPlacement::kHost && backend.info().kind == BackendKind::kGpu &&
      backend.host_rows_bytes_total() == 0) {
    return absl::FailedPreconditionError(
        "rows = host: there is no host memory for rows; host_rows_bytes, the setting that takes "
        "it at start, is less than one slab");
  }
  return absl::OkStatus();
}

namespace {

// A collection with its rows on the host can scan only codes.
ScanPrecision PrecisionOf(const CollectionSpec& spec, const backend::Backend& backend) {
  if (spec.scan == ScanChoice::kRows) return ScanPrecision::kRows;
  const backend::BackendInfo& info = backend.info();
  if (spec.dim > info.scan_dim_max) return ScanPrecision::kRows;
  if (spec.scan == ScanChoice::kInt8 || spec.scan == ScanChoice::kInt16 ||
      spec.rows == RowPlacement::kHost) {
    return ScanPrecision::kInt8;
  }
  return spec.dim >= info.scan_dim_min ? info.scan : ScanPrecision::kRows;
}

}  // namespace

Corpus::Corpus(const CollectionSpec& spec, std::shared_ptr<Device> device, uint64_t epoch,
               int64_t ordinals_max)
    : spec_(spec),
      device_(std::move(device)),
      scan_(PrecisionOf(spec, device_->backend())),
      ordinals_(ordinals_max),
      snapshot_(std::make_shared<const CorpusSnapshot>(CorpusSnapshot{.epoch = epoch})) {}

std::shared_ptr<Corpus> Corpus::Make(const CollectionSpec& spec, std::shared_ptr<Device> device,
                                     uint64_t epoch, int64_t ordinals_max) {
  return std::shared_ptr<Corpus>(new Corpus(spec, std::move(device), epoch, ordinals_max));
}

backend::RowFormat Corpus::format() const {
  return {.dim = spec_.dim,
          .metric = spec_.metric,
          .row_type = spec_.row_type,
          .scan = scan_,
          .may_scan_rows = spec_.scan == ScanChoice::kAuto && spec_.rows == RowPlacement::kDevice,
          .second_codes = spec_.scan == ScanChoice::kInt16 && scan_ != ScanPrecision::kRows,
          .rows = spec_.rows,
          .numeric_ids = spec_.id_type == IdType::kUint64,
          .devices = spec_.devices};
}

std::shared_ptr<const CorpusSnapshot> Corpus::Pin() const {
  const MutexLock lock(mutex_);
  return snapshot_;
}

absl::StatusOr<SearchedRows> Corpus::Searched(
    const std::shared_ptr<const CorpusSnapshot>& snapshot,
    const std::shared_ptr<const RowFilter>& filter) const {
  SearchedRows rows = {.snapshot = snapshot, .selection = nullptr};
  if (filter == nullptr) return rows;
  ABSL_ASSIGN_OR_RETURN(rows.selection, selections_.Get(*device_, snapshot, filter));
  return rows;
}

void Corpus::PrepareSwap() {
  const MutexLock lock(mutex_);
  std::erase_if(replaced_, [](const auto& snapshot) { return snapshot.expired(); });
  if (replaced_.size() == replaced_.capacity()) replaced_.reserve(2 * replaced_.size() + 1);
}

void Corpus::Swap(std::shared_ptr<const CorpusSnapshot> next) noexcept {
  {
    const MutexLock lock(mutex_);
    // Modulo 2^64: the commits of a load may begin below epoch 0.
    CHECK_GE(static_cast<int64_t>(next->epoch - snapshot_->epoch), 0);
    CHECK_LT(replaced_.size(), replaced_.capacity());  // PrepareSwap has made room
    replaced_.push_back(snapshot_);
    snapshot_.swap(next);
  }
  next = nullptr;  // may release the last reference to a generation: without the lock
  selections_.Trim();
}

absl::Status Corpus::Show(std::vector<GenerationState> generations, const PendingChange& change,
                          const CommitHook& before_visible) {
  auto next = std::make_shared<CorpusSnapshot>();
  next->epoch = change.epoch;
  next->generations = std::move(generations);
  CHECK_GT(static_cast<int64_t>(change.epoch - Pin()->epoch), 0);
  next->Check();
  PrepareSwap();
  if (before_visible) ABSL_RETURN_IF_ERROR(before_visible(change));
  Swap(std::move(next));
  return absl::OkStatus();
}

CollectionStats Corpus::Stats() const {
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  CollectionStats stats;
  stats.epoch = snapshot->epoch;
  stats.scan = scan_;
  stats.rows_count = snapshot->rows_live();
  stats.generations_count = static_cast<int32_t>(snapshot->generations.size());
  for (const GenerationState& state : snapshot->generations) {
    stats.rows_deleted += state.generation->rows_count() - state.rows_live;
    const HeldBytes bytes = state.generation->bytes();
    stats.device_bytes += bytes.device;
    stats.host_bytes += bytes.host + bytes.host_rows;
    if (state.versions != nullptr) stats.host_bytes += state.versions->bytes();
  }
  return stats;
}

absl::StatusOr<HeldBytes> Corpus::UploadBytes(const UploadReservation& reservation) const {
  HeldBytes bytes;
  ABSL_ASSIGN_OR_RETURN(bytes.host, CorpusUpload::HostBytesOf(spec_, reservation));
  ABSL_ASSIGN_OR_RETURN(bytes.device,
                        device_->backend().DeviceBytesOf(format(), reservation.rows_max));
  if (spec_.rows == RowPlacement::kHost) bytes.host_rows = reservation.rows_max * row_bytes();
  return bytes;
}

absl::StatusOr<std::unique_ptr<Upload>> Corpus::BeginUpload(const UploadReservation& reservation) {
  ABSL_RETURN_IF_ERROR(device_->Check());
  return CatchOutOfMemory([&] { return CorpusUpload::Begin(shared_from_this(), reservation); });
}

absl::StatusOr<CommitResult> Corpus::Publish(std::shared_ptr<const Generation> generation,
                                             UploadMode mode, const CommitHook& before_visible) {
  const MutexLock change(change_mutex_);
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  Remainder left = {.generations = snapshot->generations, .ids_removed = IdColumn(spec_.id_type)};
  CommitResult result = {.epoch = snapshot->epoch};
  PendingChange pending = {.epoch = snapshot->epoch + 1, .ids_removed = &left.ids_removed};
  if (mode == UploadMode::kReplace) {
    if (generation == nullptr && left.generations.empty()) return result;
    left.generations.clear();
    result.rows_replaced = snapshot->rows_live();
    pending.removes_all = true;
  } else if (generation == nullptr) {
    return result;
  } else if (mode == UploadMode::kUpsert) {
    ABSL_ASSIGN_OR_RETURN(left, Without(*device_, *snapshot, generation->ordered_ids()));
    result.rows_replaced = left.ids_removed.size();
  } else {
    ABSL_RETURN_IF_ERROR(CheckNew(*snapshot, generation->ordered_ids()));
  }
  ABSL_ASSIGN_OR_RETURN(
      std::vector<GenerationState> generations,
      MergeDownTo(device_, format(), std::move(left.generations), size_t{kGenerationsMax} - 1));
  std::vector<uint32_t> superseded;
  if (generation != nullptr) {
    superseded = generation->superseded();
    pending.first_ordinal = generation->ordinals.at(0);
    ABSL_ASSIGN_OR_RETURN(GenerationState added, FirstState(*device_, std::move(generation)));
    result.rows_count = added.rows_live;
    generations.push_back(std::move(added));
  }
  pending.rows_count = result.rows_count;
  pending.rows_superseded = superseded;
  ABSL_RETURN_IF_ERROR(Show(std::move(generations), pending, before_visible));
  result.epoch = pending.epoch;
  return result;
}

absl::StatusOr<DeleteResult> Corpus::Delete(const IdColumn& ids, const CommitHook& before_visible) {
  ABSL_RETURN_IF_ERROR(CheckIdType(ids));
  return CatchOutOfMemory([&] {
    const std::vector<uint32_t> order = OrderById(ids);
    return Reduce(
        [&](const CorpusSnapshot& snapshot) {
          return Without(*device_, snapshot, {.ids = &ids, .order = order});
        },
        before_visible);
  });
}

absl::StatusOr<DeleteResult> Corpus::DeleteRows(const RowFilter& rows,
                                                const CommitHook& before_visible) {
  return CatchOutOfMemory([&] {
    return Reduce(
        [&](const CorpusSnapshot& snapshot) {
          return WithoutChosen(*device_, snapshot, rows, spec_.id_type);
        },
        before_visible);
  });
}

absl::StatusOr<DeleteResult> Corpus::Reduce(Reduction without, const CommitHook& before_visible) {
  ABSL_RETURN_IF_ERROR(device_->Check());
  const MutexLock change(change_mutex_);
  const std::shared_ptr<const CorpusSnapshot> snapshot = Pin();
  ABSL_ASSIGN_OR_RETURN(Remainder left, without(*snapshot));
  const int64_t rows_deleted = left.ids_removed.size();
  if (rows_deleted == 0) return DeleteResult{.epoch = snapshot->epoch, .rows_deleted = 0};
  const PendingChange pending = {.epoch = snapshot->epoch + 1, .ids_removed = &left.ids_removed};
  ABSL_RETURN_IF_ERROR(Show(std::move(left.generations), pending, before_visible));
  return DeleteResult{.epoch = pending.epoch, .rows_deleted = rows_deleted};
}

absl::StatusOr<RowFilter> Corpus::LiveRows(const PinnedEpoch* at) const {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(at));
  return CatchOutOfMemory(
      [&]() -> absl::StatusOr<RowFilter> { return corpus::LiveRows(*snapshot); });
}

absl::StatusOr<RowFilter> Corpus::RowsWithIds(const PinnedEpoch* at, const IdColumn& ids) const {
  ABSL_RETURN_IF_ERROR(CheckIdType(ids));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(at));
  return CatchOutOfMemory(
      [&]() -> absl::StatusOr<RowFilter> { return corpus::RowsWithIds(*snapshot, ids); });
}

absl::StatusOr<int64_t> Corpus::CountRows(const PinnedEpoch* at, const RowFilter& rows) const {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot, At(at));
  return CatchOutOfMemory(
      [&]() -> absl::StatusOr<int64_t> { return CountChosen(*snapshot, rows); });
}

absl::StatusOr<CompactionResult> Corpus::Compact(const CompactionOptions& options) {
  if (!(options.dead_share_max >= 0 && options.dead_share_max < 1)) {
    return MustBe("dead_share_max", absl::StrCat(options.dead_share_max),
                  "at least 0 and less than 1");
  }
  ABSL_RETURN_IF_ERROR(CheckRange("generations_max", options.generations_max, 1, kGenerationsMax));
  return CatchOutOfMemory([&] { return CompactOnce(options); });
}

// Searches and changes continue during the copy. Changes wait only while the copy is swapped in.
absl::StatusOr<CompactionResult> Corpus::CompactOnce(const CompactionOptions& options) {
  ABSL_RETURN_IF_ERROR(device_->Check());
  const MutexLock compaction(compaction_mutex_);
  CompactionStep step = {.before = Pin()};
  step.indices = ChooseCompaction(*step.before, options);
  CompactionResult result = {.done = step.indices.empty()};
  if (result.done) return result;
  std::vector<const GenerationState*> sources;
  for (const size_t index : step.indices) {
    sources.push_back(&step.before->generations[index]);
    result.rows_given_back += sources.back()->generation->rows_count() - sources.back()->rows_live;
  }
  ABSL_ASSIGN_OR_RETURN(step.copy, Merge(device_, format(), sources));
  result.rows_copied = step.copy->rows_count();

  const MutexLock change(change_mutex_);
  const std::shared_ptr<const CorpusSnapshot> current = Pin();
  ABSL_ASSIGN_OR_RETURN(auto generations, Replace(*device_, *current, step));
  if (!generations) return CompactionResult{};  // a commit has merged some of them meanwhile
  auto next = std::make_shared<CorpusSnapshot>();
  next->epoch = current->epoch;
  next->generations = *std::move(generations);
  CHECK_EQ(next->rows_live(), current->rows_live());
  next->Check();
  PrepareSwap();
  Swap(std::move(next));
  return result;
}

absl::Status Corpus::CheckIdType(const IdColumn& ids) const {
  ABSL_RETURN_IF_ERROR(CheckRange("ids", ids.size(), 0, kRowsMax));
  return corpus::CheckIdType(ids, spec_.id_type);
}

}  // namespace nearfield::corpus

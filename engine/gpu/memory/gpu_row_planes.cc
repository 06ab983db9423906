#include "engine/gpu/memory/gpu_row_planes.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/kernels/encode/encode.h"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/gpu/memory/layout.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kTableAlign = 256;

std::vector<char*> TakeTail(std::vector<char*>& slabs, int64_t kept) {
  CHECK(0 <= kept && kept <= static_cast<int64_t>(slabs.size()));
  std::vector<char*> tail(slabs.begin() + kept, slabs.end());
  slabs.resize(static_cast<std::size_t>(kept));
  return tail;
}

GpuRowPlanes::SlabBytes SlabBytesOf(GpuCore& core) {
  return {.device = core.arena().slab_bytes(), .host_rows = core.host_rows().slab_bytes()};
}

}  // namespace

GpuRowPlanes::GpuRowPlanes(std::shared_ptr<GpuCore> core, const backend::RowFormat& format,
                           int64_t rows_max)
    : core_(std::move(core)),
      format_(format),
      rows_max_(rows_max),
      source_row_bytes_(int64_t{format.dim} * BytesPerElement(format.row_type)) {
  view_.shape = RowShapeOf(format.dim);
  view_.row_bytes = int64_t{view_.shape.padded} * BytesPerElement(format.row_type);
  const SlabNeeds needs = NeedsOf(SlabBytesOf(*core_), format, rows_max);
  view_.rows_per_slab = static_cast<uint32_t>(needs.rows_per_slab);
  view_.meta.slab_shift = core_->arena().slab_shift();
  if (!has_codes()) return;
  codes_.code_bytes = CodeBytesOf(format.dim);
  codes_.rows_per_slab = static_cast<uint32_t>(needs.codes_per_slab);
}

GpuRowPlanes::SlabNeeds GpuRowPlanes::NeedsOf(const SlabBytes& slabs,
                                              const backend::RowFormat& format, int64_t rows_max) {
  const bool on_host = format.rows == RowPlacement::kHost;
  const int64_t slab_bytes = slabs.device;
  const int64_t row_slab_bytes = on_host ? slabs.host_rows : slab_bytes;
  const int64_t row_bytes =
      int64_t{RowShapeOf(format.dim).padded} * BytesPerElement(format.row_type);
  SlabNeeds needs;
  needs.rows_per_slab = row_slab_bytes / row_bytes / kRowsAlign * kRowsAlign;
  needs.rows = CeilDiv(rows_max, needs.rows_per_slab);
  if (format.scan != ScanPrecision::kRows) {
    const int32_t code_bytes = CodeBytesOf(format.dim);
    const int64_t align = CodeSlabAlign(code_bytes);
    needs.codes_per_slab =
        slab_bytes / (code_bytes + static_cast<int64_t>(sizeof(bound::RowBound))) / align * align;
    needs.codes = CeilDiv(rows_max, needs.codes_per_slab);
    if (format.second_codes) needs.second_codes = needs.codes;
  }
  // Norms, ranks, ids, both tables and their padding. The estimate for the table's own slabs is
  // high.
  const int64_t plane_bytes = (format.numeric_ids ? 20 : 12) * rows_max + kTableAlign;
  const int64_t code_slabs = needs.codes + needs.second_codes;
  const int64_t table_bytes = 8 * (needs.rows + code_slabs + CeilDiv(plane_bytes, slab_bytes) + 2);
  needs.meta = CeilDiv(plane_bytes + table_bytes, slab_bytes);
  needs.on_device = needs.meta + code_slabs + (on_host ? 0 : needs.rows);
  return needs;
}

int64_t GpuRowPlanes::DeviceBytesOf(GpuCore& core, const backend::RowFormat& format,
                                    int64_t rows_max) {
  return DeviceBytesOf(SlabBytesOf(core), format, rows_max);
}

int64_t GpuRowPlanes::DeviceBytesOf(const SlabBytes& slabs, const backend::RowFormat& format,
                                    int64_t rows_max) {
  return NeedsOf(slabs, format, rows_max).on_device * slabs.device;
}

absl::StatusOr<std::unique_ptr<GpuRowPlanes>> GpuRowPlanes::Reserve(
    std::shared_ptr<GpuCore> core, const backend::RowFormat& format, int64_t rows_max) {
  ABSL_RETURN_IF_ERROR(CheckRange("dim", format.dim, 1, kDimMax));
  ABSL_RETURN_IF_ERROR(CheckRange("rows_max", rows_max, 1, kRowsMax));
  ABSL_RETURN_IF_ERROR(core->Bind());
  std::unique_ptr<GpuRowPlanes> planes(new GpuRowPlanes(std::move(core), format, rows_max));
  ABSL_RETURN_IF_ERROR(planes->TakeSlabs());
  return planes;
}

absl::Status GpuRowPlanes::TakeSlabs() {
  Arena& arena = core_->arena();
  const SlabNeeds needs = NeedsOf(SlabBytesOf(*core_), format_, rows_max_);
  const int64_t all_slabs = needs.meta + needs.rows + needs.codes + needs.second_codes;
  ABSL_ASSIGN_OR_RETURN(std::vector<char*> slabs, arena.TakeSlabs(needs.on_device));
  second_code_slabs_ = TakeTail(slabs, needs.on_device - needs.second_codes);
  code_slabs_ = TakeTail(slabs, needs.on_device - needs.second_codes - needs.codes);
  row_slabs_ = TakeTail(slabs, needs.meta);
  meta_slabs_ = std::move(slabs);
  if (on_host()) {
    ABSL_ASSIGN_OR_RETURN(row_slabs_, row_arena().TakeSlabs(needs.rows));
  }
  if (8 * all_slabs > arena.slab_bytes()) {
    return absl::ResourceExhaustedError(absl::StrCat("rows_max = ", rows_max_, ": ", all_slabs,
                                                     " slabs in one generation, at most ",
                                                     arena.slab_bytes() / 8));
  }
  auto* const tables = reinterpret_cast<char* const*>(meta_slabs_.front());
  view_.meta.slabs = tables;
  view_.row_slabs = tables + needs.meta;
  codes_.slabs = view_.row_slabs + needs.rows;
  if (has_second_codes()) codes_.second_slabs = codes_.slabs + needs.codes;
  view_.norms_offset = RoundUp(8 * all_slabs, kTableAlign);
  std::vector<char*> pointers = meta_slabs_;
  pointers.insert(pointers.end(), row_slabs_.begin(), row_slabs_.end());
  pointers.insert(pointers.end(), code_slabs_.begin(), code_slabs_.end());
  pointers.insert(pointers.end(), second_code_slabs_.begin(), second_code_slabs_.end());
  return core_->WriteExtent({.slabs = &meta_slabs_, .offset = 0}, pointers.data(),
                            static_cast<int64_t>(pointers.size() * sizeof(char*)));
}

GpuRowPlanes::~GpuRowPlanes() {
  // An aborted upload may still be writing to the slabs.
  if (!sealed_ && core_->Bind().ok()) core_->DrainUploads().IgnoreError();
  row_arena().Release(row_slabs_);
  core_->arena().Release(meta_slabs_);
  core_->arena().Release(code_slabs_);
  core_->arena().Release(second_code_slabs_);
}

absl::Status GpuRowPlanes::CheckRoom(int64_t rows_count) const {
  if (sealed_) return absl::FailedPreconditionError("rows appended to a sealed generation");
  if (rows_count < 0 || rows_count > rows_max_ - rows_count_) {
    return absl::ResourceExhaustedError(absl::StrCat("rows: ", rows_count_, " + ", rows_count,
                                                     " exceed the reservation of ", rows_max_));
  }
  return absl::OkStatus();
}

absl::Status GpuRowPlanes::Append(const void* rows, int64_t rows_count) {
  ABSL_RETURN_IF_ERROR(CheckRoom(rows_count));
  ABSL_RETURN_IF_ERROR(core_->Bind());
  StagingRing& ring = core_->upload_ring();
  const auto* source = static_cast<const char*>(rows);
  const int64_t part_max = ring.buffer_bytes() / source_row_bytes_;
  for (int64_t done = 0; done < rows_count;) {
    const int64_t part = std::min(part_max, rows_count - done);
    const auto bytes = static_cast<std::size_t>(part * source_row_bytes_);
    ABSL_ASSIGN_OR_RETURN(StagingRing::Lease lease, ring.Acquire());
    std::memcpy(lease.host(), source + done * source_row_bytes_, bytes);
    ABSL_RETURN_IF_ERROR(
        core_->health().Check(cudaMemcpyAsync(lease.device(), lease.host(), bytes,
                                              cudaMemcpyHostToDevice, lease.stream()),
                              "cudaMemcpyAsync"));
    ABSL_RETURN_IF_ERROR(StoreRows(lease, part));
    ABSL_RETURN_IF_ERROR(lease.Submit());
    rows_count_ += part;
    done += part;
  }
  return absl::OkStatus();
}

// Stores rows from the lease's device memory, row-major, as rows [rows_count_, ...).
absl::Status GpuRowPlanes::StoreRows(const StagingRing::Lease& lease, int64_t rows_count) {
  CHECK_LE(rows_count_ + rows_count, rows_max_);
  const auto first = static_cast<uint32_t>(rows_count_);
  const auto count = static_cast<uint32_t>(rows_count);
  const RowType row = format_.row_type;
  ABSL_RETURN_IF_ERROR(core_->health().Check(
      LaunchStoreRows(row, view_, lease.device(), first, count, lease.stream()), "storing rows"));
  if (!has_codes()) return absl::OkStatus();
  const EncodeRowsArgs args = {.codes = codes_,
                               .rotation = bound::RotationShapeOf(format_.dim, format_.seed),
                               .metric = format_.metric,
                               .source = lease.device(),
                               .first = first,
                               .count = count};
  return core_->health().Check(LaunchEncodeRows(row, args, lease.stream()), "encoding rows");
}

absl::Status GpuRowPlanes::AppendFrom(const backend::RowPlanes& source,
                                      absl::Span<const uint32_t> slots) {
  const auto* const from = dynamic_cast<const GpuRowPlanes*>(&source);
  if (from == nullptr || from->core_ != core_ || !from->sealed_ ||
      from->format_.dim != format_.dim || from->format_.row_type != format_.row_type ||
      from->format_.metric != format_.metric || from->format_.scan != format_.scan ||
      from->format_.second_codes != format_.second_codes || from->format_.rows != format_.rows) {
    return absl::InvalidArgumentError("rows of another backend or format, or not sealed");
  }
  ABSL_RETURN_IF_ERROR(CheckRoom(static_cast<int64_t>(slots.size())));
  ABSL_RETURN_IF_ERROR(core_->Bind());
  StagingRing& ring = core_->upload_ring();
  const auto part_max = static_cast<std::size_t>(ring.buffer_bytes() / 4);
  while (!slots.empty()) {
    const absl::Span<const uint32_t> part = slots.first(std::min(part_max, slots.size()));
    ABSL_ASSIGN_OR_RETURN(StagingRing::Lease lease, ring.Acquire());
    std::memcpy(lease.host(), part.data(), part.size() * 4);
    ABSL_RETURN_IF_ERROR(
        core_->health().Check(cudaMemcpyAsync(lease.device(), lease.host(), part.size() * 4,
                                              cudaMemcpyHostToDevice, lease.stream()),
                              "cudaMemcpyAsync"));
    const CopyRowsArgs args = {.from = from->view_,
                               .to = view_,
                               .slots = reinterpret_cast<const uint32_t*>(lease.device()),
                               .first = static_cast<uint32_t>(rows_count_),
                               .count = static_cast<uint32_t>(part.size())};
    ABSL_RETURN_IF_ERROR(
        core_->health().Check(LaunchCopyRows(args, lease.stream()), "copying rows"));
    if (has_codes()) {
      const CopyCodesArgs codes = {.from = from->codes_,
                                   .to = codes_,
                                   .slots = args.slots,
                                   .first = args.first,
                                   .count = args.count};
      ABSL_RETURN_IF_ERROR(
          core_->health().Check(LaunchCopyCodes(codes, lease.stream()), "copying codes"));
    }
    rows_count_ += static_cast<int64_t>(part.size());
    slots.remove_prefix(part.size());
    // The source is borrowed for this call only, so the last part waits for its copy.
    ABSL_RETURN_IF_ERROR(slots.empty() ? lease.Finish() : lease.Submit());
  }
  return absl::OkStatus();
}

absl::Status GpuRowPlanes::Seal(const backend::SealedOrder& order) {
  const auto [ranks, ids] = order;
  if (sealed_) return absl::FailedPreconditionError("a generation sealed twice");
  if (static_cast<int64_t>(ranks.size()) != rows_count_) {
    return absl::InvalidArgumentError(
        absl::StrCat("ranks: ", ranks.size(), " for ", rows_count_, " rows"));
  }
  const auto ids_count = static_cast<int64_t>(ids.size());
  if (ids_count != (format_.numeric_ids ? rows_count_ : 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids: ", ids_count, " for ", rows_count_, " rows"));
  }
  ABSL_RETURN_IF_ERROR(core_->Bind());
  // Ids and ranks follow the norms of the rows that exist, not of those reserved, so that the slabs
  // after them can be released.
  view_.ranks_offset = view_.norms_offset + 8 * (rows_count_ + ids_count);
  if (ids_count > 0) {
    view_.ids_offset = view_.norms_offset + 8 * rows_count_;
    std::vector<uint64_t> by_rank(ids.size());
    for (std::size_t slot = 0; slot < ids.size(); ++slot) by_rank[ranks[slot]] = ids[slot];
    ABSL_RETURN_IF_ERROR(core_->WriteExtent({.slabs = &meta_slabs_, .offset = view_.ids_offset},
                                            by_rank.data(), ids_count * 8));
  }
  ABSL_RETURN_IF_ERROR(core_->WriteExtent({.slabs = &meta_slabs_, .offset = view_.ranks_offset},
                                          ranks.data(), rows_count_ * 4));
  ABSL_RETURN_IF_ERROR(core_->DrainUploads());
  Arena& arena = core_->arena();
  const int64_t meta_bytes = view_.ranks_offset + 4 * rows_count_;
  row_arena().Release(TakeTail(row_slabs_, CeilDiv(rows_count_, view_.rows_per_slab)));
  arena.Release(TakeTail(meta_slabs_, CeilDiv(meta_bytes, arena.slab_bytes())));
  if (has_codes()) {
    const int64_t kept = CeilDiv(rows_count_, codes_.rows_per_slab);
    arena.Release(TakeTail(code_slabs_, kept));
    if (has_second_codes()) arena.Release(TakeTail(second_code_slabs_, kept));
  }
  sealed_ = true;
  return absl::OkStatus();
}

int64_t GpuRowPlanes::ReadRowsMax() const {
  return (core_->read_ring().buffer_bytes() - kTableAlign) / (source_row_bytes_ + 4);
}

absl::Status GpuRowPlanes::ReadOne(const ReadPart& part, char* rows) const {
  ABSL_ASSIGN_OR_RETURN(StagingRing::Lease lease, core_->read_ring().Acquire());
  DeviceHealth& health = core_->health();
  LoadRowsArgs args = {.rows = view_,
                       .first = static_cast<uint32_t>(part.begin),
                       .count = static_cast<uint32_t>(part.count)};
  const int64_t slots_bytes = part.slots == nullptr ? 0 : part.count * 4;
  const int64_t rows_at = RoundUp(slots_bytes, kTableAlign);
  if (part.slots != nullptr) {
    std::memcpy(lease.host(), part.slots, static_cast<std::size_t>(slots_bytes));
    ABSL_RETURN_IF_ERROR(health.Check(
        cudaMemcpyAsync(lease.device(), lease.host(), static_cast<std::size_t>(slots_bytes),
                        cudaMemcpyHostToDevice, lease.stream()),
        "cudaMemcpyAsync"));
    args.slots = reinterpret_cast<const uint32_t*>(lease.device());
  }
  args.target = lease.device() + rows_at;
  ABSL_RETURN_IF_ERROR(
      health.Check(LaunchLoadRows(format_.row_type, args, lease.stream()), "reading rows"));
  const auto bytes = static_cast<std::size_t>(part.count * source_row_bytes_);
  ABSL_RETURN_IF_ERROR(
      health.Check(cudaMemcpyAsync(lease.host() + rows_at, lease.device() + rows_at, bytes,
                                   cudaMemcpyDeviceToHost, lease.stream()),
                   "cudaMemcpyAsync"));
  ABSL_RETURN_IF_ERROR(lease.Finish());
  std::memcpy(rows, lease.host() + rows_at, bytes);
  return absl::OkStatus();
}

absl::Status GpuRowPlanes::Read(absl::Span<const uint32_t> slots, void* rows) const {
  if (!sealed_) return absl::FailedPreconditionError("rows read before the generation is sealed");
  for (const uint32_t slot : slots) {
    if (slot >= rows_count_) {
      return absl::InvalidArgumentError(absl::StrCat("slot ", slot, " of ", rows_count_, " rows"));
    }
  }
  ABSL_RETURN_IF_ERROR(core_->Bind());
  auto* target = static_cast<char*>(rows);
  const auto slots_count = static_cast<int64_t>(slots.size());
  for (int64_t done = 0; done < slots_count;) {
    const int64_t count = std::min(ReadRowsMax(), slots_count - done);
    ABSL_RETURN_IF_ERROR(
        ReadOne({.slots = slots.data() + done, .begin = 0, .count = count}, target));
    target += count * source_row_bytes_;
    done += count;
  }
  return absl::OkStatus();
}

absl::Status GpuRowPlanes::ReadRange(int64_t begin, int64_t rows_count, void* rows) const {
  if (!sealed_) return absl::FailedPreconditionError("rows read before the generation is sealed");
  if (begin < 0 || rows_count < 0 || rows_count > rows_count_ - begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", begin, ", ", begin, " + ", rows_count, ") of ", rows_count_));
  }
  ABSL_RETURN_IF_ERROR(core_->Bind());
  auto* target = static_cast<char*>(rows);
  for (int64_t done = 0; done < rows_count;) {
    const int64_t count = std::min(ReadRowsMax(), rows_count - done);
    ABSL_RETURN_IF_ERROR(
        ReadOne({.slots = nullptr, .begin = begin + done, .count = count}, target));
    target += count * source_row_bytes_;
    done += count;
  }
  return absl::OkStatus();
}

int64_t GpuRowPlanes::device_bytes() const {
  const std::size_t row_slabs = on_host() ? 0 : row_slabs_.size();
  const std::size_t code_slabs = code_slabs_.size() + second_code_slabs_.size();
  return static_cast<int64_t>(row_slabs + meta_slabs_.size() + code_slabs) *
         core_->arena().slab_bytes();
}

int64_t GpuRowPlanes::host_bytes() const {
  return on_host() ? static_cast<int64_t>(row_slabs_.size()) * row_arena().slab_bytes() : 0;
}

}  // namespace nearfield::gpu

#include "engine/gpu/memory/arena.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <functional>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kAlignment = 256;

}  // namespace

Arena::~Arena() {
  if (base_ == nullptr) return;
  if (on_host_) {
    cudaFreeHost(base_);
  } else {
    cudaFree(base_);
  }
}

absl::Status Arena::CheckNew() const {
  if (!sealed_ && base_ == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError("the arena is taken already: no allocation after creation");
}

absl::Status Arena::Create(DeviceHealth& health, const Sizes& sizes) {
  ABSL_RETURN_IF_ERROR(CheckNew());
  slab_shift_ = SlabShift(sizes.slab_bytes);
  slabs_count_ = sizes.slab_bytes >> slab_shift_;
  workspace_bytes_ = RoundUp(sizes.workspace_bytes, slab_bytes());
  const int64_t bytes = workspace_bytes_ + bytes_total();
  void* base = nullptr;
  const absl::Status taken =
      health.Check(cudaMalloc(&base, static_cast<std::size_t>(bytes)), "cudaMalloc");
  if (!taken.ok()) {
    return absl::Status(
        taken.code(), absl::StrCat("taking ", bytes, " bytes of device memory: ", taken.message()));
  }
  base_ = static_cast<char*>(base);
  CutSlabs();
  return absl::OkStatus();
}

absl::Status Arena::CreateOnHost(DeviceHealth& health, int64_t bytes) {
  ABSL_RETURN_IF_ERROR(CheckNew());
  on_host_ = true;
  slab_shift_ = SlabShift(bytes);
  slabs_count_ = bytes >> slab_shift_;
  if (slabs_count_ == 0) return absl::OkStatus();
  void* base = nullptr;
  const absl::Status taken = health.Check(
      cudaHostAlloc(&base, static_cast<std::size_t>(bytes_total()), cudaHostAllocMapped),
      "cudaHostAlloc");
  if (!taken.ok()) {
    return absl::Status(taken.code(), absl::StrCat("taking ", bytes_total(),
                                                   " bytes of host memory: ", taken.message()));
  }
  // With unified addressing, which every 64-bit process has, kernels use the same address.
  base_ = static_cast<char*>(base);
  CutSlabs();
  return absl::OkStatus();
}

void Arena::CutSlabs() {
  const MutexLock lock(mutex_);
  free_.reserve(static_cast<std::size_t>(slabs_count_));
  for (int64_t slab = slabs_count_ - 1; slab >= 0; --slab) {
    free_.push_back(base_ + workspace_bytes_ + slab * slab_bytes());
  }
}

absl::StatusOr<char*> Arena::TakeWorkspace(int64_t bytes) {
  if (sealed_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the arena is sealed: ", bytes, " bytes of workspace asked for after creation"));
  }
  const int64_t rounded = RoundUp(bytes, kAlignment);
  if (rounded > workspace_bytes_ - workspace_used_) {
    return absl::ResourceExhaustedError(absl::StrCat("workspace of ", workspace_bytes_, " bytes, ",
                                                     workspace_used_, " used, ", bytes,
                                                     " more asked for"));
  }
  char* const part = base_ + workspace_used_;
  workspace_used_ += rounded;
  return part;
}

void Arena::Seal() { sealed_ = true; }

absl::Status Arena::NotFree(int64_t count) const {
  return absl::ResourceExhaustedError(
      absl::StrCat(on_host_ ? "host memory of rows: " : "device memory: ", count << slab_shift_,
                   " bytes needed, ", free_.size() << slab_shift_, " of ", bytes_total(), " free"));
}

absl::StatusOr<std::vector<char*>> Arena::TakeSlabs(int64_t count) {
  const MutexLock lock(mutex_);
  CHECK_GE(count, 0);
  const auto available = static_cast<int64_t>(free_.size());
  if (count > available) return NotFree(count);
  std::vector<char*> slabs(free_.rbegin(), free_.rbegin() + count);
  free_.resize(static_cast<std::size_t>(available - count));
  return slabs;
}

absl::StatusOr<std::vector<char*>> Arena::TakeAdjacentSlabs(int64_t count) {
  if (count == 1) return TakeSlabs(1);
  const MutexLock lock(mutex_);
  const auto available = static_cast<int64_t>(free_.size());
  if (count > available) return NotFree(count);
  // The free slabs are taken from the back, so the lowest addresses come last.
  std::sort(free_.begin(), free_.end(), std::greater<>());
  int64_t adjacent = 1;  // slabs that lie one after another, the last one at free_[end]
  for (int64_t end = available - 1; end > 0 && adjacent < count; --end) {
    const auto i = static_cast<std::size_t>(end);
    adjacent = free_[i - 1] - free_[i] == slab_bytes() ? adjacent + 1 : 1;
    if (adjacent < count) continue;
    const auto begin = free_.begin() + (end - 1);
    std::vector<char*> slabs(begin, begin + count);
    std::reverse(slabs.begin(), slabs.end());
    free_.erase(begin, begin + count);
    return slabs;
  }
  absl::Status status = NotFree(count);
  return absl::Status(status.code(), absl::StrCat(status.message(), ", but not one after another"));
}

void Arena::Release(const std::vector<char*>& slabs) {
  const MutexLock lock(mutex_);
  CHECK_LE(static_cast<int64_t>(free_.size() + slabs.size()), slabs_count_);
  for (const char* const slab : slabs) {
    const int64_t offset = slab - (base_ + workspace_bytes_);
    CHECK(offset >= 0 && offset < bytes_total() && offset % slab_bytes() == 0);
  }
  free_.insert(free_.end(), slabs.rbegin(), slabs.rend());
}

absl::StatusOr<char*> Arena::TakePiece(int64_t bytes) {
  const int64_t piece_bytes = SlabPieces::PieceBytes(bytes, slab_bytes());
  CHECK_GT(piece_bytes, 0);
  const MutexLock lock(mutex_);
  if (char* const piece = pieces_.Take(piece_bytes)) return piece;
  if (free_.empty()) return NotFree(1);
  pieces_.AddSlab(free_.back(), slab_bytes(), piece_bytes);
  free_.pop_back();
  return pieces_.Take(piece_bytes);
}

void Arena::ReleasePiece(char* piece, int64_t bytes) {
  const int64_t offset = piece - (base_ + workspace_bytes_);
  CHECK(offset >= 0 && offset < bytes_total());
  char* const slab = piece - offset % slab_bytes();
  const MutexLock lock(mutex_);
  if (pieces_.Release(slab, slab_bytes(), piece, SlabPieces::PieceBytes(bytes, slab_bytes()))) {
    free_.push_back(slab);
  }
}

int64_t Arena::bytes_used() const {
  const MutexLock lock(mutex_);
  return bytes_total() - (static_cast<int64_t>(free_.size()) << slab_shift_);
}

}  // namespace nearfield::gpu

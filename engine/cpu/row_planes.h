// CpuRowPlanes: the planes of one generation in host memory: rows padded to kDimStep elements,
// S(x,x), ranks, and for a code scan the codes, padded to cache lines, and their bounds.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/base/memory_budget.h"
#include "engine/base/mutex.h"
#include "engine/base/thread_pool.h"
#include "engine/bound/rotation.h"
#include "engine/cpu/host_memory.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/score/score.h"

namespace nearfield::cpu {

// The threads of a backend, and a mutex for their use. Searches wait for their turn; fills use the
// threads only if they are idle.
struct SharedThreads {
  explicit SharedThreads(int32_t threads_count) : pool(threads_count) {}
  Mutex turn;
  std::atomic<int64_t> searched_at{0};  // ticks of the steady clock; 0: never
  ThreadPool pool ABSL_GUARDED_BY(turn);

  static int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
  void RecordSearch() { searched_at.store(Now(), std::memory_order_relaxed); }
  // Returns true if the last search was recent, so another may come at any moment. Other work does
  // not take the turn then.
  bool SearchedRecently() const {
    constexpr std::chrono::steady_clock::duration kRecently = std::chrono::milliseconds(50);
    const int64_t last = searched_at.load(std::memory_order_relaxed);
    return last != 0 && Now() - last < kRecently.count();
  }
};

class CpuRowPlanes : public backend::RowPlanes {
 public:
  struct Resources {
    std::shared_ptr<MemoryBudget> budget;
    std::shared_ptr<SharedThreads> threads;
    const ScanKernels* kernels = nullptr;
  };

  // Errors: ResourceExhausted (needed and free bytes).
  static absl::StatusOr<std::unique_ptr<CpuRowPlanes>> Reserve(const backend::RowFormat& format,
                                                               int64_t rows_max,
                                                               const Resources& resources);

  absl::Status Append(const void* rows, int64_t rows_count) override;
  absl::Status AppendFrom(const backend::RowPlanes& source,
                          absl::Span<const uint32_t> slots) override;
  absl::Status Seal(const backend::SealedOrder& order) override;
  absl::Status Read(absl::Span<const uint32_t> slots, void* rows) const override;
  absl::Status ReadRange(int64_t begin, int64_t rows_count, void* rows) const override;
  int64_t rows_count() const override { return rows_count_; }
  int64_t device_bytes() const override { return share_.bytes(); }

  const backend::RowFormat& format() const { return format_; }
  bool sealed() const { return sealed_; }
  int64_t stride_bytes() const { return stride_bytes_; }
  RowTile tile(int64_t begin, int32_t rows_count) const {
    return {planes_.rows.data() + begin * stride_bytes_, rows_count, PaddedDim(format_.dim),
            format_.row_type};
  }
  const double* squares() const { return reinterpret_cast<const double*>(planes_.squares.data()); }
  const uint32_t* ranks() const { return reinterpret_cast<const uint32_t*>(planes_.ranks.data()); }

  // Returns the canonical score of the row at `slot`. sum: of its products with the query; for L2,
  // of the squared differences. query_square: S(q,q), read for cosine only.
  float Score(Metric metric, double sum, double query_square, int64_t slot) const {
    if (metric == Metric::kDot) return score::DotScore(sum);
    if (metric == Metric::kL2) return score::L2Score(sum);
    return score::CosineScore(sum, query_square, squares()[slot]);
  }

  // For formats with codes only.
  bool has_codes() const { return format_.scan != ScanPrecision::kRows; }
  const bound::Rotation* rotation() const { return rotation_.get(); }
  int64_t code_stride() const { return code_stride_; }
  CodeTile code_tile(int64_t begin, int32_t rows_count) const {
    return {codes() + begin * code_stride_, rows_count, format_.dim};
  }
  const bound::RowBound* bounds() const {
    return reinterpret_cast<const bound::RowBound*>(planes_.bounds.data());
  }

  // Returns true if the planes can be searched as `format`: rows always can, codes only with their
  // own metric.
  bool Answers(const backend::RowFormat& format) const;

  // Returns the bytes that a generation of this many rows takes from the budget.
  // Errors: ResourceExhausted (the number is not representable).
  static absl::StatusOr<int64_t> BytesNeeded(const backend::RowFormat& format, int64_t rows_count);

 private:
  struct Planes {
    Mapping rows, squares, ranks, codes, bounds;
  };
  CpuRowPlanes(const backend::RowFormat& format, int64_t rows_max, const Resources& resources,
               MemoryReservation share, Planes planes);

  absl::Status CheckRoom(int64_t rows_count) const;
  absl::Status CheckSlots(absl::Span<const uint32_t> slots) const;
  // Copies packed rows to slots [begin, begin + rows_count), computes their S(x,x) and encodes
  // them. scratch: as EncodeRows::scratch.
  void Store(const std::byte* packed, int64_t begin, int64_t rows_count, double* scratch);
  uint8_t* codes() const { return reinterpret_cast<uint8_t*>(planes_.codes.data()); }

  const backend::RowFormat format_;
  const int64_t rows_max_;
  const int64_t row_bytes_;     // as appended
  const int64_t stride_bytes_;  // as stored
  const int64_t code_stride_;   // 0: no codes
  const Resources resources_;
  MemoryReservation share_;
  Planes planes_;
  const std::unique_ptr<const bound::Rotation> rotation_;  // null: no codes
  int64_t rows_count_ = 0;
  bool sealed_ = false;
};

class CpuTombstones : public backend::Tombstones {
 public:
  CpuTombstones(std::vector<uint64_t> words, MemoryReservation share)
      : words_(std::move(words)), share_(std::move(share)) {}
  absl::Span<const uint64_t> words() const override { return words_; }

 private:
  const std::vector<uint64_t> words_;
  const MemoryReservation share_;
};

}  // namespace nearfield::cpu

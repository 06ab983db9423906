// CodeQueries: a group of queries prepared for a code scan: codes in the kernels' layouts, the
// bounds of their products with rows, fp64 vectors for scoring candidates, and score floors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"
#include "engine/bound/certified_bound.h"
#include "engine/bound/rotation.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/score_floor.h"
#include "engine/cpu/workspace.h"

namespace nearfield::cpu {

// Returns S(q,q) of a query, which is squared like a row of fp32. Overwrites `padded`, which has
// PaddedDim(dim) elements.
double QuerySquare(const ScanKernels& kernels, const float* query, int32_t dim, float* padded);

// Keeps its memory from one group to the next.
class CodeQueries {
 public:
  struct Input {
    const float* queries = nullptr;  // [k.size(), dim]
    absl::Span<const int32_t> k;
    backend::RowFormat format;
    const bound::Rotation* rotation = nullptr;
  };
  // Replaces the group. Uses the threads of the pool if there is enough work. Errors:
  // FailedPrecondition (a thread is not in the arithmetic mode that the bounds require).
  absl::Status Prepare(const Input& input, const ScanKernels& kernels, ThreadPool& pool);

  int32_t count() const { return count_; }
  // Returns true if this many queries are scanned in panels, by the first code. Fewer queries are
  // scanned one by one, with both codes.
  static bool InPanels(int32_t count);
  bool in_panels() const { return panels_count_ > 0; }
  const CodeKernels& kernels() const { return *kernels_; }
  int32_t panels_count() const { return panels_count_; }
  // The codes of a query, packed for CodeKernels::scan_one.
  const std::byte* one(int32_t query) const { return ones_.get() + query * one_bytes_; }
  const std::byte* panel(int32_t panel) const { return panels_.get() + panel * panel_bytes_; }
  const bound::QueryBound& bound(int32_t query) const {
    return bounds_[static_cast<size_t>(query)].both;
  }
  // Terms of the bounds with the first code, [panels_count * lanes] each.
  const float* first_scale() const { return terms_.get(); }
  const float* of_residual() const { return terms_.get() + width_; }
  const float* of_norm() const { return terms_.get() + 2 * width_; }
  const float* squared_norm_lower() const { return terms_.get() + 3 * width_; }
  // The query in fp64, [dim_padded], for canonical scores.
  const double* wide(int32_t query) const { return wide_.get() + query * dim_padded_; }
  // S(q, q) for cosine; 1 for the other metrics.
  double square(int32_t query) const { return squares_[static_cast<size_t>(query)]; }

  ScoreFloor& floor(int32_t query) { return states_[static_cast<size_t>(query)].floor; }
  // True if bounds rule out too few rows for this query, which is then searched by a row scan.
  bool abandoned(int32_t query) const {
    return states_[static_cast<size_t>(query)].abandoned.load(std::memory_order_relaxed);
  }
  void Abandon(int32_t query) {
    states_[static_cast<size_t>(query)].abandoned.store(true, std::memory_order_relaxed);
  }
  // Work of all threads on the query's candidates in one generation (Candidates::FinalizeTile).
  void ResetWork(int32_t query) {
    states_[static_cast<size_t>(query)].work.store(0, std::memory_order_relaxed);
  }
  int64_t AddWork(int32_t query, int64_t work) {
    return states_[static_cast<size_t>(query)].work.fetch_add(work, std::memory_order_relaxed) +
           work;
  }

 private:
  // State of one query that all threads of a scan share.
  struct State {
    ScoreFloor floor;
    std::atomic<bool> abandoned{false};
    std::atomic<int64_t> work{0};
  };

  void EncodeQuery(const Input& input, const ScanKernels& kernels, int32_t query, double* scratch);
  void PackPanels(const Input& input);
  int8_t* first_code(int64_t query) const { return codes_.get() + query * dim_; }

  const CodeKernels* kernels_ = nullptr;
  int32_t count_ = 0;
  int32_t panels_count_ = 0;
  int64_t one_bytes_ = 0;
  int64_t panel_bytes_ = 0;
  int64_t width_ = 0;
  int64_t dim_ = 0;
  int64_t dim_padded_ = 0;
  ScratchBuffer<std::byte> ones_;    // of single queries: [count][one_bytes]
  ScratchBuffer<std::byte> panels_;  // [panels_count][panel_bytes]
  ScratchBuffer<int8_t> codes_;      // the first ones, [count][dim]
  ScratchBuffer<float> terms_;
  ScratchBuffer<double> wide_;
  std::vector<ScratchBuffer<double>> scratch_;  // one per thread
  std::vector<bound::QueryBounds> bounds_;
  std::vector<double> squares_;  // S(q,q), for cosine
  std::unique_ptr<State[]> states_;
  int64_t states_count_ = 0;
};

}  // namespace nearfield::cpu

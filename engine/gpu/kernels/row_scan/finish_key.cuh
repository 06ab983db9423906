// From the canonical sum of a row and a query to the order key.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/score/order.h"
#include "engine/score/score.h"

namespace nearfield::gpu {

// Data of a row that its key needs in addition to the sum.
struct RowProperties {
  uint32_t rank = 0;
  bool dead = false;
  double squared = 1.0;
};

__device__ inline RowProperties LoadRowProperties(const ScanArgs& args, uint32_t slot,
                                                  bool cosine) {
  RowProperties properties;
  properties.rank = *args.rows.rank(slot);
  properties.dead = args.tombstones.dead(slot);
  if (cosine) properties.squared = *args.rows.norm(slot);
  return properties;
}

template <bool kL2>
__device__ float FinishScore(Metric metric, double sum, double query_squared, double row_squared) {
  if constexpr (kL2) return score::L2Score(sum);
  return metric == Metric::kCosine ? score::CosineScore(sum, query_squared, row_squared)
                                   : score::DotScore(sum);
}

template <bool kL2>
__device__ uint64_t FinishKey(Metric metric, double sum, double query_squared,
                              const RowProperties& row) {
  const float score = FinishScore<kL2>(metric, sum, query_squared, row.squared);
  return row.dead ? score::kNoKey : score::OrderKey(score, row.rank);
}

}  // namespace nearfield::gpu

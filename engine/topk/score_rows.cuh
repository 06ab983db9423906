// One row of scores on the device: its bounds, and its answer.
#pragma once

#include <cstdint>

#include "engine/topk/score_rows.h"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {

struct RowBounds {
  int64_t begin;
  uint32_t size;
};

// Returns the bounds of a row of at most n scores. A bound below 0 counts as 0.
__device__ __forceinline__ RowBounds BoundsOf(const int32_t* row_begin, const int32_t* row_end,
                                              uint32_t n, int64_t row) {
  const int64_t begin = row_begin == nullptr ? 0 : max(row_begin[row], 0);
  const int64_t end = row_end == nullptr ? int64_t{n} : int64_t{row_end[row]};
  const int64_t size = max(end - begin, int64_t{0});
  return {begin, static_cast<uint32_t>(min(size, int64_t{n}))};
}

template <typename Scores>
struct ScoreRow {
  const typename Scores::Raw* scores;
  uint32_t n;
  uint32_t k;       // results: at most n
  uint32_t places;  // of the answer: k of the call
  ScoreResults<Scores> results;

  // Fills the places of the answer that have no result. `threads` threads call it.
  __device__ __forceinline__ void Pad(uint32_t threads) const {
    for (uint32_t rank = k + threadIdx.x; rank < places; rank += threads) results.None(rank);
  }
};

// Returns the row of a place in the launch.
template <typename Scores>
__device__ __forceinline__ ScoreRow<Scores> RowAt(const ScoreRows& rows, int64_t place) {
  using Raw = typename Scores::Raw;
  const int64_t row = rows.order == nullptr ? place : rows.order[place];
  const RowBounds bounds = BoundsOf(rows.row_begin, rows.row_end, rows.n, row);
  return {static_cast<const Raw*>(rows.scores) + row * rows.stride + bounds.begin,
          bounds.size,
          min(rows.k, bounds.size),
          rows.k,
          {static_cast<Raw*>(rows.values) + row * rows.k, rows.indices + row * rows.k}};
}

}  // namespace nearfield::gpu

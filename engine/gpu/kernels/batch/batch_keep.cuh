// Converts the products of a batch scan to bounds and keeps the rows that may reach a threshold.
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/cuda/warp_primitives.cuh"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"

namespace nearfield::gpu {

// Capacity of a warp's ring: rows with a reserved slot, and those of two calls of Add.
inline constexpr int kSurvivorsMax = 3 * kWarp;

// The query's terms in the comparison of a bound with the threshold.
struct QueryTerms {
  float scale;        // t1
  float of_residual;  // A
  float of_norm;      // B
  float reach;        // at most threshold + h; +inf for a query that is not wanted
};

// A survivor: a row that may reach a query's threshold.
struct Survivor {
  uint32_t row_index;
  float upper;
  uint32_t query;
};

// Buffer of one warp's survivors.
struct SurvivorRing {
  Survivor rows[kSurvivorsMax];
};

// Returns whether a stage after the first collects rows for this query of the batch: the query
// exists and its queue has not overflowed. A threshold cannot say so: +inf is a legal one.
__device__ __forceinline__ bool IsAlive(const BatchArgs& args, int query) {
  return query < args.queries && args.state[query].overflow == 0;
}

// Returns whether a stage collects rows for any of `count` queries. All threads of the block call
// it.
__device__ __forceinline__ bool AnyAlive(const BatchArgs& args, int first, int count) {
  bool alive = false;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    alive |= IsAlive(args, first + i);
  }
  return __syncthreads_or(static_cast<int>(alive)) != 0;
}

// Returns what a bound of UpperOf must reach if it is to reach a score.
__device__ __forceinline__ float ReachOf(float score, const bound::QueryBound& bound) {
  return __fadd_rd(__fadd_rd(score, bound.squared_norm_lower), -0x1p-140f);
}

// Returns the terms of a query. An inactive query gets the threshold +inf, which only a row without
// a finite bound reaches.
__device__ __forceinline__ QueryTerms TermsOf(const BatchArgs& args, int query) {
  if (!IsAlive(args, query)) return {0, 0, 0, score::FloatFromBits(0x7f800000u)};
  const BatchQuery& state = args.state[query];
  const bound::QueryBound& bound = state.first_only;
  return {bound.first_scale, bound.of_residual, bound.of_norm, ReachOf(state.threshold, bound)};
}

__device__ __forceinline__ float SquaredNormLowerOf(const BatchArgs& args, int query) {
  return query < args.queries ? args.state[query].first_only.squared_norm_lower : 0.0f;
}

// Some queries of a block, in shared memory.
struct QueriesView {
  const QueryTerms* terms;
  const float* squared_norm_lower;  // h of each query
  const bool* alive;                // IsAlive of each query
  int first;                        // index of the first one in the batch
  // The tile as each query sees it (batch_query_tiles.cuh): the rows that it does not see, and the
  // value in place of QueryTerms::reach. Null: all see it alike.
  const uint64_t* absent = nullptr;
  const float* reach = nullptr;

  template <typename Tile>
  __device__ __forceinline__ void See(const Tile& tile) {
    absent = tile.absent;
    reach = tile.reach;
  }
  __device__ __forceinline__ bool IsAbsent(int query, uint32_t row) const {
    return (absent[query] >> row & 1) != 0;
  }
};

// The queries of a block.
template <int kQueries>
struct SharedQueries {
  QueryTerms terms[kQueries];
  float squared_norm_lower[kQueries];
  bool alive[kQueries];

  // Reads the queries at `first_query` of the batch and after it. All threads of the block call it,
  // and synchronize before they use the queries.
  __device__ void Load(const BatchArgs& args, int first_query) {
    for (int i = static_cast<int>(threadIdx.x); i < kQueries; i += static_cast<int>(blockDim.x)) {
      terms[i] = TermsOf(args, first_query + i);
      squared_norm_lower[i] = SquaredNormLowerOf(args, first_query + i);
      alive[i] = IsAlive(args, first_query + i);
    }
  }

  // Returns the queries of the block at `begin` and after it. first_query: of the block, in the
  // batch.
  __device__ __forceinline__ QueriesView From(int begin, int first_query) const {
    return {terms + begin, squared_norm_lower + begin, alive + begin, first_query + begin};
  }
};

// Each warp buffers survivors in a ring. Queue slots are reserved for 32 rows at a time; a batch is
// written only when the next one is reserved, which hides the ~1 us latency of the atomics.
// Requires: all lanes of the warp call.
class SurvivorList {
 public:
  __device__ SurvivorList(const BatchArgs& args, SurvivorRing& ring)
      : args_(args), list_(ring.rows) {}

  // Adds the rows of the lanes in `lanes`. Requires: `lanes` is not empty.
  __device__ __forceinline__ void Add(uint32_t lanes, const Survivor& row) {
    int at = begin_ + count_ + __popc(lanes & ((1u << Lane()) - 1));
    if (at >= kSurvivorsMax) at -= kSurvivorsMax;
    if ((lanes >> Lane() & 1) != 0) list_[at] = row;
    count_ += __popc(lanes);
    if (count_ >= kWarp) Reserve(kWarp);
  }

  // Writes all rows of the ring to the queues.
  __device__ void Flush() {
    if (count_ > 0) Reserve(count_);
    WriteReserved();
  }

 private:
  // Writes the rows that have slots, then reserves slots for the next `count` rows, at most 32.
  __device__ __forceinline__ void Reserve(int count) {
    WriteReserved();
    if (Lane() < count) slot_ = atomicAdd(&args_.state[list_[begin_ + Lane()].query].listed, 1u);
    reserved_ = count;
    begin_ = begin_ + kWarp == kSurvivorsMax ? 0 : begin_ + kWarp;
    count_ -= count;
  }

  // Writes the rows that have reserved slots to their queues.
  __device__ __forceinline__ void WriteReserved() {
    __syncwarp();
    if (Lane() < reserved_ && slot_ < args_.capacity) {
      const Survivor row = list_[(begin_ == 0 ? kSurvivorsMax : begin_) - kWarp + Lane()];
      args_.queues[static_cast<int64_t>(row.query) * args_.capacity + slot_] =
          QueueEntry{row.row_index, __float_as_uint(row.upper)};
    }
    reserved_ = 0;
    __syncwarp();
  }

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  const BatchArgs& args_;
  Survivor* const list_;
  // Index of the first row without a slot: a multiple of 32.
  int begin_ = 0;
  int count_ = 0;      // rows without a slot; less than 32 between calls
  int reserved_ = 0;   // rows with a reserved slot, among the 32 before begin_
  uint32_t slot_ = 0;  // the queue slot reserved for this lane's row
};

// The two rows of a tile whose sums a thread holds, among the 16 rows that its warp multiplies
// together: row `index` and row index + 8.
struct MyRows {
  const bound::RowBound* first;  // bound of row `index`, in shared memory
  uint32_t index;                // of the first row, in the tile
  bool present[2];

  // of_tile: bounds of the tile. absent: TileLocation::Absent(). first_of_warp: the first of the 16
  // rows.
  __device__ MyRows(const unsigned char* of_tile, uint64_t absent, uint32_t first_of_warp) {
    index = first_of_warp + threadIdx.x % kWarp / 4;
    first = reinterpret_cast<const bound::RowBound*>(of_tile) + index;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) present[i] = ((absent >> (index + 8 * i)) & 1) == 0;
  }

  __device__ __forceinline__ bound::RowBound Bound(int i) const { return first[8 * i]; }
  // The bound of an absent row reaches no threshold and does not change the shared slack.
  __device__ __forceinline__ bound::RowBound BoundIfPresent(int i) const {
    const float infinity = score::FloatFromBits(0x7f800000u);
    return present[i] ? Bound(i) : bound::RowBound{0.0f, -infinity, 0.0f, infinity};
  }
};

// Returns UpperScore's bound for one sum, without h. Adds in another order and with fewer
// roundings; the slack of the bound covers both.
__device__ __forceinline__ float UpperOf(int32_t sum, const bound::RowBound& bound,
                                         const QueryTerms& term) {
  const float slack = fmaf(term.of_residual, bound.residual,
                           fmaf(term.of_norm, bound.norm, -bound.squared_norm_lower));
  return fmaf(static_cast<float>(sum) * term.scale, bound.scale, slack);
}

// Subtracts h from a bound of UpperOf, rounded up.
__device__ __forceinline__ float WithSquaredNorm(float upper, float squared_norm_lower) {
  return __fadd_ru(__fadd_ru(upper, -squared_norm_lower), 0x1p-140f);
}

// First stage: writes every row to every queue, in the slot given by its position. kChoose: without
// the rows that queries.absent excludes.
template <int kQueries, bool kChoose>
__device__ __forceinline__ void KeepAll(const BatchArgs& args, const int32_t (&sums)[kQueries / 2],
                                        const MyRows& mine, uint32_t first_row_index,
                                        const QueriesView& queries, int64_t first_place) {
  const bound::RowBound bounds[2] = {mine.Bound(0), mine.Bound(1)};
  const uint32_t row_indices[2] = {
      mine.present[0] ? first_row_index + mine.index : kNoRowIndex,
      mine.present[1] ? first_row_index + mine.index + 8 : kNoRowIndex};
#pragma unroll
  for (int j = 0; j < kQueries / 2; ++j) {
    const int query = j / 4 * 8 + 2 * (static_cast<int>(threadIdx.x) % 4) + j % 2;
    if (queries.first + query >= args.queries) continue;
    const int which = j / 2 % 2;
    const float upper = WithSquaredNorm(UpperOf(sums[j], bounds[which], queries.terms[query]),
                                        queries.squared_norm_lower[query]);
    uint32_t row_index = row_indices[which];
    if constexpr (kChoose) {
      if (queries.IsAbsent(query, mine.index + 8u * which)) row_index = kNoRowIndex;
    }
    args.queues[static_cast<int64_t>(queries.first + query) * args.capacity + first_place +
                mine.index + 8 * which] = QueueEntry{row_index, __float_as_uint(upper)};
  }
}

// Copies the four sums of quad `at`, which is the same in all lanes. Uses branches: selecting among
// all sums would cost as much as comparing them.
template <int kBegin, int kEnd, int kSums>
__device__ __forceinline__ void TakeQuad(const int32_t (&sums)[kSums], int at, int32_t (&quad)[4]) {
  if constexpr (kEnd - kBegin == 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i) quad[i] = sums[4 * kBegin + i];
  } else {
    constexpr int kMiddle = (kBegin + kEnd) / 2;
    if (at < kMiddle) {
      TakeQuad<kBegin, kMiddle>(sums, at, quad);
    } else {
      TakeQuad<kMiddle, kEnd>(sums, at, quad);
    }
  }
}

// Returns one bit per quad of sums, set if one of its two queries sees one of its two rows. absent:
// of this thread's first query. While thresholds count few rows of a query, most rows reach them,
// so this leaves most of the quads out.
template <int kQueries>
__device__ __forceinline__ uint32_t SeenQuads(const MyRows& mine, const uint64_t* absent) {
  constexpr uint32_t kBothRows = 0x101;
  uint32_t quads = 0;
#pragma unroll
  for (int j = 0; j < kQueries / 8; ++j) {
    const uint64_t of_both = absent[8 * j] & absent[8 * j + 1];
    const bool seen = (static_cast<uint32_t>(of_both >> mine.index) & kBothRows) != kBothRows;
    quads |= seen ? 1u << j : 0u;
  }
  return quads;
}

// Adds the rows that may reach their query's threshold to `list`, for kQueries queries. Compares
// all sums first and sets one mask bit per quad of sums. Few bits are set, so the rest is a loop,
// which takes no space in the instruction cache. kChoose: as KeepAll.
template <int kQueries, bool kChoose>
__device__ __forceinline__ void KeepSome(const int32_t (&sums)[kQueries / 2], const MyRows& mine,
                                         uint32_t first_row_index, const QueriesView& queries,
                                         SurvivorList& list) {
  const int first_of_mine = 2 * (static_cast<int>(threadIdx.x) % 4);
  const QueryTerms* const my_terms = queries.terms + first_of_mine;
  // One slack for both rows: at least as large as each row's own.
  const bound::RowBound bounds[2] = {mine.BoundIfPresent(0), mine.BoundIfPresent(1)};
  const float residual = fmaxf(bounds[0].residual, bounds[1].residual);
  const float norm = fmaxf(bounds[0].norm, bounds[1].norm);
  const float squared_norm_lower =
      fminf(bounds[0].squared_norm_lower, bounds[1].squared_norm_lower);
  uint32_t quads = 0;
#pragma unroll
  for (int j = 0; j < kQueries / 8; ++j) {
    const QueryTerms of[2] = {my_terms[8 * j], my_terms[8 * j + 1]};
    bool any = false;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const float reach = kChoose ? queries.reach[first_of_mine + 8 * j + q] : of[q].reach;
      const float slack =
          fmaf(of[q].of_residual, residual, fmaf(of[q].of_norm, norm, -squared_norm_lower));
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float upper = fmaf(static_cast<float>(sums[4 * j + 2 * row + q]) * of[q].scale,
                                 bounds[row].scale, slack);
        any |= !(upper < reach);
      }
    }
    quads |= any ? 1u << j : 0u;
  }
  if constexpr (kChoose) quads &= SeenQuads<kQueries>(mine, queries.absent + first_of_mine);
  quads = WarpOr(quads);
#pragma unroll 1
  for (; quads != 0; quads &= quads - 1) {
    const int j = __ffs(static_cast<int>(quads)) - 1;
    int32_t quad[4];
    TakeQuad<0, kQueries / 8>(sums, j, quad);
    uint32_t passing = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const QueryTerms& term = my_terms[8 * j + i % 2];
      const float upper = UpperOf(quad[i], mine.Bound(i / 2), term);
      // A row with a bound of +inf also reaches the threshold of a query that is not wanted.
      const int query = first_of_mine + 8 * j + i % 2;
      const float reach = kChoose ? queries.reach[query] : term.reach;
      bool present = mine.present[i / 2] && queries.alive[query];
      if constexpr (kChoose) {
        present =
            present && !queries.IsAbsent(query, mine.index + 8u * static_cast<uint32_t>(i / 2));
      }
      if (!(upper < reach) && present) passing |= 1u << i;
    }
    // A lane rarely has two survivors.
    for (;;) {
      const uint32_t lanes = __ballot_sync(kFullWarp, passing != 0);
      if (lanes == 0) break;
      const int i = __ffs(static_cast<int>(passing)) - 1;
      const int32_t sum = i == 0 ? quad[0] : i == 1 ? quad[1] : i == 2 ? quad[2] : quad[3];
      const int query = first_of_mine + 8 * j + (i & 1);
      const float upper = UpperOf(sum, mine.Bound(i / 2), queries.terms[query]);
      list.Add(lanes, {first_row_index + mine.index + 4u * static_cast<uint32_t>(i & 2),
                       WithSquaredNorm(upper, queries.squared_norm_lower[query]),
                       static_cast<uint32_t>(queries.first + query)});
      passing &= passing - 1;
    }
  }
}

}  // namespace nearfield::gpu

// What the scan of a batch does with its products: bounds, and the rows that may reach a threshold.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_

#include <cstdint>

#include "engine/gpu/kernels/certified/batch.h"
#include "engine/gpu/kernels/certified/batch_ring.cuh"

namespace nearfield::gpu {

inline constexpr int kBatchThreadsMax = kBatchWarpgroupsMax * kWarpgroup;
inline constexpr int kBatchColumnsMax = 128;  // queries of a block
// Rows in the list of a warp: those that wait for their places, and two calls of Add.
inline constexpr int kPassedMax = 3 * kWarp;

// What the comparison needs of a query.
struct QueryTerms {
  float scale;        // t1
  float of_residual;  // A
  float of_norm;      // B
  float reach;        // not more than the threshold + h; +inf where the query is not wanted
};

// A row that may reach a query's threshold.
struct Passed {
  uint32_t number;
  float upper;
  uint32_t query;
};

// Of a warp.
struct PassedRing {
  Passed rows[kPassedMax];
};

struct ScanShared {
  uint64_t arrivals[kBatchWarpgroupsMax][kStagesMax];
  float less[kBatchColumnsMax];   // h of each query
  bool wanted[kBatchColumnsMax];  // IsWanted of each query
  PassedRing passed[kBatchThreadsMax / kWarp];
};

// Returns whether a stage after the first collects rows for this query of the batch: the query
// exists and its queue has not overflowed. A threshold cannot say so: +inf is a legal one.
__device__ __forceinline__ bool IsWanted(const BatchArgs& args, int query) {
  return query < args.queries && args.state[query].overflow == 0;
}

// Returns the terms of a query; for one that is not wanted, terms that only a row without a finite
// bound reaches.
__device__ __forceinline__ QueryTerms TermsOf(const BatchArgs& args, int query) {
  if (!IsWanted(args, query)) return {0, 0, 0, score::FloatFromBits(0x7f800000u)};
  const BatchQuery& state = args.state[query];
  const score::QueryBound& bound = state.first_only;
  return {bound.first_scale, bound.of_residual, bound.of_norm,
          __fadd_rd(__fadd_rd(state.threshold, bound.less), -0x1p-140f)};
}

__device__ __forceinline__ float LessOfQuery(const BatchArgs& args, int query) {
  return query < args.queries ? args.state[query].first_only.less : 0.0f;
}

// What passes waits in a ring of each warp. Places in the queues are asked for 32 rows at once, and
// used when the next 32 ask: an answer takes a microsecond, for which nothing waits. Called by
// whole warps.
class PassedList {
 public:
  __device__ PassedList(const BatchArgs& args, PassedRing& ring) : args_(args), list_(ring.rows) {}

  // Adds the rows of the lanes that have one: `lanes`, which are not none.
  __device__ __forceinline__ void Add(uint32_t lanes, const Passed& row) {
    int at = begin_ + count_ + __popc(lanes & ((1u << Lane()) - 1));
    if (at >= kPassedMax) at -= kPassedMax;
    if ((lanes >> Lane() & 1) != 0) list_[at] = row;
    count_ += __popc(lanes);
    if (count_ >= kWarp) Ask(kWarp);
  }

  // Empties the list into the queues.
  __device__ void Flush() {
    if (count_ > 0) Ask(count_);
    Place();
  }

 private:
  // Asks for places for the first `count` rows, at most a warp's.
  __device__ __forceinline__ void Ask(int count) {
    Place();
    if (Lane() < count) place_ = atomicAdd(&args_.state[list_[begin_ + Lane()].query].listed, 1u);
    asked_ = count;
    begin_ = begin_ + kWarp == kPassedMax ? 0 : begin_ + kWarp;
    count_ -= count;
  }

  // Puts the rows that have asked into their queues.
  __device__ __forceinline__ void Place() {
    __syncwarp();
    if (Lane() < asked_ && place_ < args_.capacity) {
      const Passed row = list_[(begin_ == 0 ? kPassedMax : begin_) - kWarp + Lane()];
      args_.queues[static_cast<int64_t>(row.query) * args_.capacity + place_] =
          QueueEntry{row.number, __float_as_uint(row.upper)};
    }
    asked_ = 0;
    __syncwarp();
  }

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }

  const BatchArgs& args_;
  Passed* const list_;
  // The rows begin at a multiple of 32.
  int begin_ = 0;
  int count_ = 0;       // less than 32 between calls
  int asked_ = 0;       // of the 32 before them
  uint32_t place_ = 0;  // of the row of this lane
};

// The two rows of a tile whose sums a thread has: the first, and the eighth behind it.
struct MyRows {
  const score::RowBound* first;  // its bound, in shared memory
  uint32_t index;                // its place in the tile
  bool present[2];

  // absent: TilePlace::Absent().
  __device__ MyRows(const unsigned char* of_tile, uint64_t absent) {
    const uint32_t thread = threadIdx.x % kWarpgroup;
    index = thread / 32 * 16 + thread % 32 / 4;
    first = reinterpret_cast<const score::RowBound*>(of_tile) + index;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) present[i] = ((absent >> (index + 8 * i)) & 1) == 0;
  }

  __device__ __forceinline__ score::RowBound Bound(int i) const { return first[8 * i]; }
  // That of an absent row reaches no threshold, and takes nothing from the other row's slack.
  __device__ __forceinline__ score::RowBound BoundIfPresent(int i) const {
    const float infinity = score::FloatFromBits(0x7f800000u);
    return present[i] ? Bound(i) : score::RowBound{0.0f, -infinity, 0.0f, infinity};
  }
};

// The bound of UpperScore for one sum, but for h: its sums are taken in another order and with
// fewer roundings, which its slack covers.
__device__ __forceinline__ float UpperOf(int32_t sum, const score::RowBound& bound,
                                         const QueryTerms& term) {
  const float slack =
      fmaf(term.of_residual, bound.residual, fmaf(term.of_norm, bound.norm, -bound.less));
  return fmaf(static_cast<float>(sum) * term.scale, bound.scale, slack);
}

// A bound that lacks h, with it.
__device__ __forceinline__ float WithLess(float upper, float less) {
  return __fadd_ru(__fadd_ru(upper, -less), 0x1p-140f);
}

// The first stage: every row goes to every queue, at its place.
template <int kQueries>
__device__ __forceinline__ void KeepAll(const BatchArgs& args, const int32_t (&sums)[kQueries / 2],
                                        const MyRows& mine, uint32_t first_number,
                                        const QueryTerms* terms, const float* less_of,
                                        int first_query, int64_t first_place) {
  const score::RowBound bounds[2] = {mine.Bound(0), mine.Bound(1)};
  const uint32_t numbers[2] = {mine.present[0] ? first_number + mine.index : kNoNumber,
                               mine.present[1] ? first_number + mine.index + 8 : kNoNumber};
#pragma unroll
  for (int j = 0; j < kQueries / 2; ++j) {
    const int query = j / 4 * 8 + 2 * (static_cast<int>(threadIdx.x) % 4) + j % 2;
    if (first_query + query >= args.queries) continue;
    const int which = j / 2 % 2;
    const float upper = WithLess(UpperOf(sums[j], bounds[which], terms[query]), less_of[query]);
    args.queues[static_cast<int64_t>(first_query + query) * args.capacity + first_place +
                mine.index + 8 * which] = QueueEntry{numbers[which], __float_as_uint(upper)};
  }
}

// The four sums of place `at`, which is the same in all lanes: branches, as a choice among all sums
// would cost as much as comparing them.
template <int kBegin, int kEnd, int kSums>
__device__ __forceinline__ void TakeFour(const int32_t (&sums)[kSums], int at, int32_t (&four)[4]) {
  if constexpr (kEnd - kBegin == 1) {
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = sums[4 * kBegin + i];
  } else {
    constexpr int kMiddle = (kBegin + kEnd) / 2;
    if (at < kMiddle) {
      TakeFour<kBegin, kMiddle>(sums, at, four);
    } else {
      TakeFour<kMiddle, kEnd>(sums, at, four);
    }
  }
}

// Lists the rows that may reach their query's threshold, of `queries` from first_query on. All sums
// are compared first, four to a bit of a mask; as few bits are set, the rest is a loop that costs
// no room in the instruction cache.
template <int kQueries>
__device__ __forceinline__ void KeepSome(const int32_t (&sums)[kQueries / 2], const MyRows& mine,
                                         uint32_t first_number, const QueryTerms* terms,
                                         const ScanShared& shared, int first_query,
                                         PassedList& list) {
  const int first_of_mine = 2 * (static_cast<int>(threadIdx.x) % 4);
  const QueryTerms* const my_terms = terms + first_of_mine;
  // One slack for both rows, not less than either's.
  const score::RowBound bounds[2] = {mine.BoundIfPresent(0), mine.BoundIfPresent(1)};
  const float residual = fmaxf(bounds[0].residual, bounds[1].residual);
  const float norm = fmaxf(bounds[0].norm, bounds[1].norm);
  const float less = fminf(bounds[0].less, bounds[1].less);
  uint32_t fours = 0;
#pragma unroll
  for (int j = 0; j < kQueries / 8; ++j) {
    const QueryTerms of[2] = {my_terms[8 * j], my_terms[8 * j + 1]};
    bool any = false;
#pragma unroll
    for (int q = 0; q < 2; ++q) {
      const float slack = fmaf(of[q].of_residual, residual, fmaf(of[q].of_norm, norm, -less));
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const float upper = fmaf(static_cast<float>(sums[4 * j + 2 * row + q]) * of[q].scale,
                                 bounds[row].scale, slack);
        any |= !(upper < of[q].reach);
      }
    }
    fours |= any ? 1u << j : 0u;
  }
  fours = __reduce_or_sync(0xffffffffu, fours);
#pragma unroll 1
  for (; fours != 0; fours &= fours - 1) {
    const int j = __ffs(static_cast<int>(fours)) - 1;
    int32_t four[4];
    TakeFour<0, kQueries / 8>(sums, j, four);
    uint32_t passing = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const QueryTerms& term = my_terms[8 * j + i % 2];
      const float upper = UpperOf(four[i], mine.Bound(i / 2), term);
      // A bound of +inf reaches the threshold of a query that is not wanted as well.
      const bool present = mine.present[i / 2] && shared.wanted[first_of_mine + 8 * j + i % 2];
      if (!(upper < term.reach) && present) passing |= 1u << i;
    }
    // A lane seldom has two.
    for (;;) {
      const uint32_t lanes = __ballot_sync(0xffffffffu, passing != 0);
      if (lanes == 0) break;
      const int i = __ffs(static_cast<int>(passing)) - 1;
      const int32_t sum = i == 0 ? four[0] : i == 1 ? four[1] : i == 2 ? four[2] : four[3];
      const int query = first_of_mine + 8 * j + (i & 1);
      const float upper = UpperOf(sum, mine.Bound(i / 2), terms[query]);
      list.Add(lanes,
               {first_number + mine.index + 4u * static_cast<uint32_t>(i & 2),
                WithLess(upper, shared.less[query]), static_cast<uint32_t>(first_query + query)});
      passing &= passing - 1;
    }
  }
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_

// What the scan of a batch does with its products: bounds, and the rows that may reach a threshold.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_

#include <cstdint>

#include "engine/gpu/kernels/certified/batch.h"
#include "engine/gpu/kernels/certified/batch_ring.cuh"

namespace nearfield::gpu {

inline constexpr int kBatchThreadsMax = kBatchWarpgroupsMax * kWarpgroup;
inline constexpr int kPassedMax = 2 * kWarp;  // rows in the list of a warp

// What the comparison needs of a query.
struct QueryTerms {
  float scale;        // t1
  float of_residual;  // A
  float of_norm;      // B
  float reach;        // not more than the threshold + h
};

// A row that may reach a query's threshold.
struct Passed {
  uint32_t number;
  float upper;
  uint32_t query;
};

struct ScanShared {
  uint64_t arrivals[kBatchWarpgroupsMax][kStagesMax];
  Passed passed[kBatchThreadsMax / kWarp][kPassedMax];
};

// What passes waits in a list of each warp, so that the places of many rows are asked for at once:
// an answer takes a microsecond. Called by whole warps.
class PassedList {
 public:
  __device__ PassedList(const BatchArgs& args, ScanShared& shared)
      : args_(args), list_(shared.passed[threadIdx.x / kWarp]) {}

  // Adds the rows of the lanes that have one.
  __device__ __forceinline__ void Add(bool passes, const Passed& row) {
    const uint32_t lanes = __ballot_sync(0xffffffffu, passes);
    if (lanes == 0) return;
    const uint32_t before = (1u << (threadIdx.x % kWarp)) - 1;
    if (passes) list_[count_ + __popc(lanes & before)] = row;
    count_ += __popc(lanes);
    if (count_ > kPassedMax - kWarp) Flush();
  }

  // Empties the list into the queues.
  __device__ void Flush() {
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Passed rows[kPassedMax / kWarp];
    uint32_t places[kPassedMax / kWarp];
#pragma unroll
    for (int i = 0; i < kPassedMax / kWarp; ++i) {
      if (lane + i * kWarp >= count_) continue;
      rows[i] = list_[lane + i * kWarp];
      places[i] = atomicAdd(&args_.state[rows[i].query].listed, 1u);
    }
#pragma unroll
    for (int i = 0; i < kPassedMax / kWarp; ++i) {
      if (lane + i * kWarp >= count_ || places[i] >= args_.capacity) continue;
      const float less = args_.state[rows[i].query].first_only.less;
      const float upper = __fadd_ru(__fadd_ru(rows[i].upper, -less), 0x1p-140f);
      args_.queues[static_cast<int64_t>(rows[i].query) * args_.capacity + places[i]] =
          QueueEntry{rows[i].number, __float_as_uint(upper)};
    }
    count_ = 0;
    __syncwarp();
  }

 private:
  const BatchArgs& args_;
  Passed* const list_;
  int count_ = 0;
};

// The two rows of a tile whose sums a thread has: the first, and the eighth behind it.
struct MyRows {
  score::RowBound bounds[2];
  bool present[2];
  uint32_t index;

  // absent: TilePlace::Absent().
  __device__ MyRows(const unsigned char* of_tile, uint64_t absent) {
    const uint32_t thread = threadIdx.x % kWarpgroup;
    index = thread / 32 * 16 + thread % 32 / 4;
    const auto* const all = reinterpret_cast<const score::RowBound*>(of_tile);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      bounds[i] = all[index + 8 * i];
      present[i] = ((absent >> (index + 8 * i)) & 1) == 0;
      // Reaches no threshold, and takes nothing from the other row's slack.
      const float infinity = score::FloatFromBits(0x7f800000u);
      if (!present[i]) bounds[i] = {0.0f, -infinity, 0.0f, infinity};
    }
  }
};

// The bound of UpperScore for one sum, but for h: its sums are taken in another order and with
// fewer roundings, which its slack covers.
template <typename Sum>
__device__ __forceinline__ float UpperOf(Sum sum, const score::RowBound& bound,
                                         const QueryTerms& term) {
  const float slack =
      fmaf(term.of_residual, bound.residual, fmaf(term.of_norm, bound.norm, -bound.less));
  return fmaf(static_cast<float>(sum) * term.scale, bound.scale, slack);
}

// The first stage: every row goes to every queue, at its place.
template <int kQueries, typename Sum>
__device__ __forceinline__ void KeepAll(const BatchArgs& args, const Sum (&sums)[kQueries / 2],
                                        const MyRows& mine, const TilePlace& place,
                                        const QueryTerms* terms, int first_query,
                                        int64_t first_place) {
  const uint32_t numbers[2] = {mine.present[0] ? place.Number(mine.index) : kNoNumber,
                               mine.present[1] ? place.Number(mine.index + 8) : kNoNumber};
#pragma unroll
  for (int j = 0; j < kQueries / 2; ++j) {
    const int query = j / 4 * 8 + 2 * (static_cast<int>(threadIdx.x) % 4) + j % 2;
    if (first_query + query >= args.queries) continue;
    const int which = j / 2 % 2;
    // `reach` is -h here.
    const float upper =
        __fadd_ru(__fadd_ru(UpperOf(sums[j], mine.bounds[which], terms[query]), terms[query].reach),
                  0x1p-140f);
    args.queues[static_cast<int64_t>(first_query + query) * args.capacity + first_place +
                mine.index + 8 * which] = QueueEntry{numbers[which], __float_as_uint(upper)};
  }
}

// The four sums of place `at`, which is the same in all lanes: branches, as a choice among all sums
// would cost as much as comparing them.
template <int kBegin, int kEnd, typename Sum, int kSums>
__device__ __forceinline__ void TakeFour(const Sum (&sums)[kSums], int at, Sum (&four)[4]) {
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

// Lists the rows that may reach their query's threshold. All sums are compared first, four to a bit
// of a mask; as few bits are set, the rest is a loop that costs no room in the instruction cache.
template <int kQueries, typename Sum>
__device__ __forceinline__ void KeepSome(const BatchArgs& args, const Sum (&sums)[kQueries / 2],
                                         const MyRows& mine, const TilePlace& place,
                                         const QueryTerms* terms, int first_query,
                                         PassedList& list) {
  const QueryTerms* const my_terms = terms + 2 * (static_cast<int>(threadIdx.x) % 4);
  // One slack for both rows, not less than either's.
  const float residual = fmaxf(mine.bounds[0].residual, mine.bounds[1].residual);
  const float norm = fmaxf(mine.bounds[0].norm, mine.bounds[1].norm);
  const float less = fminf(mine.bounds[0].less, mine.bounds[1].less);
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
                                 mine.bounds[row].scale, slack);
        any |= !(upper < of[q].reach);
      }
    }
    fours |= any ? 1u << j : 0u;
  }
  fours = __reduce_or_sync(0xffffffffu, fours);
#pragma unroll 1
  for (; fours != 0; fours &= fours - 1) {
    const int j = __ffs(static_cast<int>(fours)) - 1;
    Sum four[4];
    TakeFour<0, kQueries / 8>(sums, j, four);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const QueryTerms& term = my_terms[8 * j + i % 2];
      const float upper = UpperOf(four[i], mine.bounds[i / 2], term);
      const int query = first_query + static_cast<int>(&term - terms);
      list.Add(!(upper < term.reach) && mine.present[i / 2] && query < args.queries,
               {place.Number(mine.index + 8u * static_cast<uint32_t>(i / 2)), upper,
                static_cast<uint32_t>(query)});
    }
  }
}

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_KEEP_CUH_

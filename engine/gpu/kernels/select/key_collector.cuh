// Streams a row once and keeps the keys that reach a threshold, in shared memory.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_

#include <cstdint>

#include "engine/gpu/kernels/select/bucket_sort.cuh"
#include "engine/gpu/kernels/select/row_populations.cuh"
#include "engine/gpu/kernels/select/row_reader.cuh"

namespace nearfield::gpu {

// keys[0, min(*count, capacity)) are kept; *count goes on beyond.
struct KeyQueue {
  uint64_t* keys;
  uint32_t* count;
  uint32_t capacity;
};

// A lane's place among the keys its warp appends. All lanes call it; mine: how many this lane has.
__device__ __forceinline__ uint32_t ReservePlaces(const KeyQueue& queue, uint32_t mine) {
  uint32_t through = mine;  // of this lane and those before
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t before = __shfl_up_sync(kFullWarp, through, step);
    if (lane >= step) through += before;
  }
  uint32_t base = 0;
  if (lane == 31) base = atomicAdd(queue.count, through);
  return __shfl_sync(kFullWarp, base, 31) + through - mine;
}

// kUnroll vectors a thread in flight.
template <typename Source, int kThreads, int kUnroll>
class KeyCollector {
 public:
  static constexpr int kPerVector = ScoreVector<Source>::kCount;
  static_assert(kUnroll * kPerVector <= 32, "one bit a score");
  // Whole keys take more registers.
  static constexpr uint32_t kVectorBits = (1u << kPerVector) - 1;
  static constexpr int kExactUnroll = kUnroll < 2 ? kUnroll : 2;

  __device__ static void Collect(const RowReader<Source>& row, RowShare share, uint64_t threshold,
                                 const KeyQueue& queue) {
    if (Source::QuickTestIsExact(threshold)) {
      Stream<kUnroll>(row, share, typename Source::QuickTest(threshold), queue);
    } else {
      Stream<kExactUnroll>(row, share, ExactTest{threshold}, queue);
    }
  }

 private:
  // Where the threshold lies among equal scores, or among NaNs.
  struct ExactTest {
    uint64_t threshold;
    __device__ bool operator()(typename Source::Raw raw, uint32_t index) const {
      return Source::Key(raw, index) >= threshold;
    }
  };

  // Where a lane's vectors are: every `stride`-th from `first` on; of their scores those `allowed`.
  struct Batch {
    uint32_t first;
    uint32_t stride;
    uint32_t allowed;
  };

  template <int kVectors, typename Test>
  __device__ static void Stream(const RowReader<Source>& row, RowShare share, const Test& test,
                                const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t stride = kThreads * share.size;
    uint32_t base = share.rank * kThreads + threadIdx.x - lane;
    const uint32_t last = row.vectors() - 1;  // not used where there is none
    for (; base < row.vectors(); base += kVectors * stride) {
      ScoreVector<Source> loaded[kVectors];
      uint32_t allowed = 0;
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const uint32_t vector = base + lane + static_cast<uint32_t>(i) * stride;
        loaded[i] = row.Load(min(vector, last));
        if (vector <= last) allowed |= kVectorBits << (i * kPerVector);
      }
      Append<kVectors>(row, loaded, {base + lane, stride, allowed}, test, queue);
    }
    if (share.rank == 0 && threadIdx.x < 32) AppendEdges(row, test, queue);
  }

  template <int kVectors, typename Test>
  __device__ static void Append(const RowReader<Source>& row,
                                const ScoreVector<Source> (&loaded)[kVectors], Batch batch,
                                const Test& test, const KeyQueue& queue) {
    uint32_t passing = 0;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int place = 0; place < kPerVector; ++place) {
        const uint32_t index =
            row.IndexOf(batch.first + static_cast<uint32_t>(i) * batch.stride, place);
        if (test(loaded[i].raw(place), index)) passing |= 1u << (i * kPerVector + place);
      }
    }
    passing &= batch.allowed;
    if (!__any_sync(kFullWarp, passing != 0)) return;
    uint32_t at = ReservePlaces(queue, static_cast<uint32_t>(__popc(passing)));
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
#pragma unroll
      for (int place = 0; place < kPerVector; ++place) {
        if ((passing >> (i * kPerVector + place) & 1u) == 0) continue;
        const uint32_t index =
            row.IndexOf(batch.first + static_cast<uint32_t>(i) * batch.stride, place);
        if (at < queue.capacity) queue.keys[at] = Source::Key(loaded[i].raw(place), index);
        ++at;
      }
    }
  }

  template <typename Test>
  __device__ static void AppendEdges(const RowReader<Source>& row, const Test& test,
                                     const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x;
    const bool valid = lane < row.edges();
    const uint32_t index = valid ? row.EdgeIndex(lane) : 0;
    uint64_t key = kNoSelectKey;
    if (valid && test(row.At(index), index)) key = Source::Key(row.At(index), index);
    const uint32_t at = ReservePlaces(queue, key != kNoSelectKey ? 1 : 0);
    if (key != kNoSelectKey && at < queue.capacity) queue.keys[at] = key;
  }
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_

// Streams a row once and keeps the keys that reach a threshold, in shared memory.
//
// Every thread copies its own vectors of the row to slots of its own in shared memory, some stages
// ahead (cp.async), and nobody waits for anybody else. The first stages are asked for before the
// threshold is known.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/gpu/kernels/select/bucket_sort.cuh"
#include "engine/gpu/kernels/select/row_populations.cuh"
#include "engine/gpu/kernels/select/row_reader.cuh"

namespace nearfield::gpu {

// Entries [0, min(*count, capacity)) are kept; *count goes on beyond.
struct KeyQueue {
  uint64_t* entries;
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

// The slots: kVectors of 16 bytes a thread and stage.
template <int kThreads, int kVectorsOf, int kStagesOf>
struct RowRing {
  static constexpr int kVectors = kVectorsOf;
  static constexpr int kStages = kStagesOf;
  uint4 slots[kStages][kVectors][kThreads];
};

// One pass over a block's share of a row: Begin, then Collect, any number of times.
template <typename Source, int kThreads, typename Ring>
class KeyCollector {
 public:
  static constexpr uint32_t kPerVector = ScoreVector<Source>::kCount;
  static constexpr uint32_t kVectors = Ring::kVectors;
  static_assert(kVectors * kPerVector <= 32, "one bit a score");

  __device__ KeyCollector(const RowReader<Source>& row, RowShare share, Ring& ring)
      : row_(row), share_(share), stride_(kThreads * share.size), ring_(ring) {}

  // Asks for the first stages.
  __device__ void Begin() {
    requested_ = share_.rank * kThreads + threadIdx.x;
#pragma unroll
    for (int stage = 0; stage < Ring::kStages; ++stage) Request(stage);
  }

  __device__ void Collect(uint64_t threshold, const KeyQueue& queue) {
    if (Source::QuickTestIsExact(threshold)) {
      Stream(typename Source::QuickTest(threshold), queue);
    } else {
      Stream(ExactTest{threshold}, queue);
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

  __device__ void Request(int stage) {
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i, requested_ += stride_) {
      if (requested_ >= row_.vectors()) continue;
      __pipeline_memcpy_async(&ring_.slots[stage][i][threadIdx.x], row_.Address(requested_), 16);
    }
    __pipeline_commit();
  }

  template <typename Test>
  __device__ void Stream(const Test& test, const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x % 32;
    int stage = 0;
    for (uint32_t first = share_.rank * kThreads + threadIdx.x; first - lane < row_.vectors();
         first += kVectors * stride_) {
      __pipeline_wait_prior(Ring::kStages - 1);
      Append(stage, first, test, queue);
      Request(stage);
      stage = stage + 1 == Ring::kStages ? 0 : stage + 1;
    }
    __pipeline_wait_prior(0);
    if (share_.rank == 0 && threadIdx.x < 32) AppendEdges(test, queue);
  }

  __device__ uint32_t IndexOf(uint32_t first, uint32_t bit) const {
    return row_.IndexOf(first + bit / kPerVector * stride_, static_cast<int>(bit % kPerVector));
  }

  // first: the lane's first vector of the stage, in the row.
  template <typename Test>
  __device__ void Append(int stage, uint32_t first, const Test& test, const KeyQueue& queue) {
    uint32_t passing = 0;
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) {
      const ScoreVector<Source> loaded{ring_.slots[stage][i][threadIdx.x]};
      uint32_t of_vector = 0;
#pragma unroll
      for (uint32_t place = 0; place < kPerVector; ++place) {
        const uint32_t bit = i * kPerVector + place;
        if (test(loaded.raw(static_cast<int>(place)), IndexOf(first, bit))) of_vector |= 1u << bit;
      }
      if (first + i * stride_ < row_.vectors()) passing |= of_vector;
    }
    if (!__any_sync(kFullWarp, passing != 0)) return;
    uint32_t at = ReservePlaces(queue, static_cast<uint32_t>(__popc(passing)));
    const auto* const raw =
        reinterpret_cast<const typename Source::Raw*>(&ring_.slots[stage][0][threadIdx.x]);
    for (; passing != 0; passing &= passing - 1, ++at) {
      const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(passing)) - 1);
      const uint32_t place = bit / kPerVector * (kThreads * kPerVector) + bit % kPerVector;
      if (at < queue.capacity) queue.entries[at] = Source::Entry(raw[place], IndexOf(first, bit));
    }
  }

  template <typename Test>
  __device__ void AppendEdges(const Test& test, const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x;
    const bool valid = lane < row_.edges();
    const uint32_t index = valid ? row_.EdgeIndex(lane) : 0;
    const bool passes = valid && test(row_.At(index), index);
    const uint32_t at = ReservePlaces(queue, passes ? 1 : 0);
    if (passes && at < queue.capacity) queue.entries[at] = Source::Entry(row_.At(index), index);
  }

  const RowReader<Source>& row_;
  const RowShare share_;
  const uint32_t stride_;
  Ring& ring_;
  uint32_t requested_ = 0;  // the next vector to ask for
};

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_KEY_COLLECTOR_CUH_

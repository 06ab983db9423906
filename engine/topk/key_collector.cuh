// Streams a row once, and keeps the keys that reach a threshold in shared memory.
//
// Every thread copies its own vectors of the row to its own slots in shared memory (cp.async), so
// no warp waits for another.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/cuda/warp_primitives.cuh"
#include "engine/topk/row_populations.cuh"
#include "engine/topk/row_reader.cuh"

namespace nearfield::gpu {

// Entries [0, min(*count, capacity)) are kept; *count may exceed the capacity.
struct KeyQueue {
  uint64_t* entries;
  uint32_t* count;
  uint32_t capacity;
};

// The slots: for each stage in flight, kVectors of 16 bytes per thread, which are processed
// together.
template <int kThreads, int kVectorsOf, int kStagesOf>
struct RowRing {
  static constexpr int kVectors = kVectorsOf;
  static constexpr int kStages = kStagesOf;
  uint4 slots[kStages][kVectors][kThreads];
};

// One pass over a block's share of a row: Begin, then Collect, any number of times. kGrouped: the
// share may be less than the row.
template <typename Source, int kThreads, typename Ring, bool kGrouped>
class KeyCollector {
 public:
  static constexpr uint32_t kPerVector = ScoreVector<Source>::kCount;
  static constexpr uint32_t kVectors = Ring::kVectors;
  static_assert(kVectors * kPerVector <= 32, "one bit a score");

  __device__ KeyCollector(const RowReader<Source>& row, RowShare share, Ring& ring)
      : row_(row), share_(share), ring_(ring) {}

  // Requests the first stages.
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
  static constexpr uint32_t kVectorBits = (1u << kPerVector) - 1;

  // Test for thresholds that lie among equal scores, or among NaNs.
  struct ExactTest {
    uint64_t threshold;
    __device__ bool operator()(typename Source::Raw raw, uint32_t index) const {
      return Source::Key(raw, index) >= threshold;
    }
  };

  // Returns the distance from one vector of a thread to its next.
  __device__ uint32_t stride() const { return kGrouped ? kThreads * share_.size : kThreads; }
  // Returns true if the stage that begins at this vector of the row lies entirely in the row.
  __device__ bool WholeStage(uint32_t first) const {
    return first + (kVectors - 1) * stride() < row_.vectors();
  }

  __device__ void Request(int stage) {
    const uint4* const source = row_.Address(requested_);
    if (WholeStage(requested_)) {
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) Copy(stage, i, source);
    } else {
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) {
        if (requested_ + i * stride() < row_.vectors()) Copy(stage, i, source);
      }
    }
    __pipeline_commit();
    requested_ += kVectors * stride();
  }
  // The L2 cache drops these first: most of a row is read once, but samples are read again.
  __device__ void Copy(int stage, uint32_t i, const uint4* source) {
    uint4* const slot = &ring_.slots[stage][i][threadIdx.x];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;"
                 :
                 : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(slot))),
                   "l"(source + i * stride()), "l"(policy)
                 : "memory");
#else
    __pipeline_memcpy_async(slot, source + i * stride(), 16);
#endif
  }

  template <typename Test>
  __device__ void Stream(const Test& test, const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x % kWarp;
    int stage = 0;
    for (uint32_t first = share_.rank * kThreads + threadIdx.x; first - lane < row_.vectors();
         first += kVectors * stride()) {
      __pipeline_wait_prior(Ring::kStages - 1);
      Append(stage, first, test, queue);
      Request(stage);
      if (Ring::kStages > 1) stage = stage + 1 == Ring::kStages ? 0 : stage + 1;
    }
    __pipeline_wait_prior(0);
    if (share_.rank == 0 && threadIdx.x < kWarp) AppendEdges(test, queue);
  }

  // first: the lane's first vector of the stage, as an index into the row.
  template <typename Test>
  __device__ void Append(int stage, uint32_t first, const Test& test, const KeyQueue& queue) {
    const uint32_t first_index = row_.IndexOf(first, 0);
    const uint32_t index_step = stride() * kPerVector;
    uint32_t passing = 0;
#pragma unroll
    for (uint32_t i = 0; i < kVectors; ++i) {
      const ScoreVector<Source> loaded{ring_.slots[stage][i][threadIdx.x]};
#pragma unroll
      for (uint32_t place = 0; place < kPerVector; ++place) {
        if (test(loaded.raw(static_cast<int>(place)), first_index + i * index_step + place)) {
          passing |= 1u << (i * kPerVector + place);
        }
      }
    }
    if (!WholeStage(first)) {
#pragma unroll
      for (uint32_t i = 0; i < kVectors; ++i) {
        if (first + i * stride() >= row_.vectors()) passing &= ~(kVectorBits << (i * kPerVector));
      }
    }
    if (!__any_sync(kFullWarp, passing != 0)) return;
    uint32_t at = ReserveSlots(queue.count, static_cast<uint32_t>(__popc(passing)));
    const auto* const raw =
        reinterpret_cast<const typename Source::Raw*>(&ring_.slots[stage][0][threadIdx.x]);
#pragma unroll 1
    for (; passing != 0; ++at) {
      const uint32_t bit = 31 - static_cast<uint32_t>(__clz(static_cast<int>(passing)));
      passing ^= 1u << bit;
      const uint32_t vector = bit / kPerVector;
      const uint32_t place = bit % kPerVector;
      if (at < queue.capacity) {
        queue.entries[at] = Source::Entry(raw[vector * (kThreads * kPerVector) + place],
                                          first_index + vector * index_step + place);
      }
    }
  }

  template <typename Test>
  __device__ void AppendEdges(const Test& test, const KeyQueue& queue) {
    const uint32_t lane = threadIdx.x;
    const bool valid = lane < row_.edges();
    const uint32_t index = valid ? row_.EdgeIndex(lane) : 0;
    const bool passes = valid && test(row_.At(index), index);
    const uint32_t at = ReserveSlots(queue.count, passes ? 1 : 0);
    if (passes && at < queue.capacity) queue.entries[at] = Source::Entry(row_.At(index), index);
  }

  const RowReader<Source>& row_;
  const RowShare share_;
  Ring& ring_;
  uint32_t requested_ = 0;  // the next vector to request
};

}  // namespace nearfield::gpu

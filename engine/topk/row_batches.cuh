// Batches of a block's share of a row, held in a thread's registers: of rows of scores, or of keys
// in device memory.
//
// ForEach<kUnroll>(visit) calls visit(batch) with all lanes of a warp together, so a visitor may
// use shuffles and votes. A batch is valid() as a whole or not at all; it holds kCount keys.
#pragma once

#include <cstdint>

#include "engine/topk/digit_select.h"
#include "engine/topk/row_reader.cuh"
#include "engine/topk/score_types.cuh"
#include "engine/topk/warp.h"

namespace nearfield::gpu {

// kUnroll vectors of a row, kDigitThreads vectors apart.
template <typename Scores, int kUnroll>
class VectorBatch {
 public:
  static constexpr int kPerVector = ScoreVector<Scores>::kCount;
  static constexpr int kCount = kUnroll * kPerVector;

  __device__ VectorBatch(const RowReader<Scores>& row, uint32_t vector, bool valid)
      : index_(row.IndexOf(vector, 0)), valid_(valid) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      vectors_[i] = valid ? row.Load(vector + static_cast<uint32_t>(i) * kDigitThreads)
                          : ScoreVector<Scores>{};
    }
  }

  __device__ bool valid() const { return valid_; }
  __device__ typename Scores::Score Value(int i) const {
    return Scores::Value(vectors_[i / kPerVector].raw(i % kPerVector));
  }
  __device__ uint32_t Order(int i) const { return OrderOf(Value(i)); }
  __device__ uint64_t Key(int i) const {
    const uint32_t place = static_cast<uint32_t>(i / kPerVector) * kDigitThreads * kPerVector +
                           static_cast<uint32_t>(i % kPerVector);
    return KeyOf(Value(i), index_ + place);
  }

 private:
  ScoreVector<Scores> vectors_[kUnroll];
  const uint32_t index_;  // index of the first score
  const bool valid_;
};

// One score outside the vectors.
template <typename Scores>
class EdgeBatch {
 public:
  static constexpr int kCount = 1;

  __device__ EdgeBatch(const RowReader<Scores>& row, uint32_t edge, bool valid) : valid_(valid) {
    if (!valid) return;
    index_ = row.EdgeIndex(edge);
    value_ = Scores::Value(row.At(index_));
  }

  __device__ bool valid() const { return valid_; }
  __device__ typename Scores::Score Value(int) const { return value_; }
  __device__ uint32_t Order(int) const { return OrderOf(value_); }
  __device__ uint64_t Key(int) const { return KeyOf(value_, index_); }

 private:
  uint32_t index_ = 0;
  typename Scores::Score value_ = 0;
  const bool valid_;
};

// The share of block `rank` of `blocks` blocks. The first block also has the edges.
template <typename ScoresOf>
class RowStripe {
 public:
  using Scores = ScoresOf;
  static constexpr bool kHasScores = true;

  __device__ RowStripe(const RowReader<Scores>& row, uint32_t rank, uint32_t blocks)
      : row_(row),
        begin_(static_cast<uint32_t>(uint64_t{row.vectors()} * rank / blocks)),
        end_(static_cast<uint32_t>(uint64_t{row.vectors()} * (rank + 1) / blocks)),
        edges_(rank == 0 ? row.edges() : 0) {}

  template <int kUnroll, typename Visit>
  __device__ __forceinline__ void ForEach(const Visit& visit) const {
    constexpr uint32_t kStep = kDigitThreads * kUnroll;
    uint32_t at = begin_;  // of the whole block; a row has at most 2^30 vectors
    for (; end_ - at >= kStep; at += kStep) {
      visit(VectorBatch<Scores, kUnroll>(row_, at + threadIdx.x, true));
    }
    for (; at < end_; at += kDigitThreads) {
      visit(VectorBatch<Scores, 1>(row_, at + threadIdx.x, at + threadIdx.x < end_));
    }
    if (edges_ > 0 && threadIdx.x < kWarp) {
      visit(EdgeBatch<Scores>(row_, threadIdx.x, threadIdx.x < edges_));
    }
  }

 private:
  const RowReader<Scores> row_;
  const uint32_t begin_;
  const uint32_t end_;
  const uint32_t edges_;
};

template <int kUnroll>
class KeyBatch {
 public:
  static constexpr int kCount = kUnroll;

  // Bypasses L1: other blocks of the launch may have written the keys.
  __device__ KeyBatch(const uint64_t* keys, bool valid) : valid_(valid) {
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      keys_[i] = valid ? __ldcg(keys + static_cast<uint32_t>(i) * kDigitThreads) : kNoSelectKey;
    }
  }

  __device__ bool valid() const { return valid_; }
  __device__ uint32_t Order(int i) const { return KeyOrder(keys_[i]); }
  __device__ uint64_t Key(int i) const { return keys_[i]; }

 private:
  uint64_t keys_[kUnroll];
  const bool valid_;
};

// The share of block `rank` of `blocks` blocks in keys[0, count).
class KeyStripe {
 public:
  static constexpr bool kHasScores = false;

  __device__ KeyStripe(const uint64_t* keys, uint32_t count, uint32_t rank, uint32_t blocks)
      : keys_(keys),
        begin_(uint64_t{count} * rank / blocks),
        end_(uint64_t{count} * (rank + 1) / blocks) {}

  template <int kUnroll, typename Visit>
  __device__ __forceinline__ void ForEach(const Visit& visit) const {
    constexpr uint64_t kStep = uint64_t{kDigitThreads} * kUnroll;
    uint64_t at = begin_;  // 64 bits: a step past the last of 2^32 - 1 keys must not wrap
    for (; end_ - at >= kStep; at += kStep) {
      visit(KeyBatch<kUnroll>(keys_ + at + threadIdx.x, true));
    }
    for (; at < end_; at += kDigitThreads) {
      visit(KeyBatch<1>(keys_ + at + threadIdx.x, at + threadIdx.x < end_));
    }
  }

 private:
  const uint64_t* const keys_;
  const uint64_t begin_;
  const uint64_t end_;
};

}  // namespace nearfield::gpu

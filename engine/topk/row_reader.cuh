// Reads a row of scores with 16-byte loads, for any alignment of its begin and end.
#pragma once

#include <cstdint>

#include "engine/topk/score_types.cuh"

namespace nearfield::gpu {

// 16 bytes of scores.
template <typename Scores>
struct ScoreVector {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(typename Scores::Raw));
  uint4 bits;

  // `place` is a constant if the loop around it is unrolled.
  __device__ typename Scores::Raw raw(int place) const {
    typename Scores::Raw all[kCount];
    __builtin_memcpy(all, &bits, 16);
    return all[place];
  }
};

// A row [0, n) as whole 16-byte vectors between two edges, each smaller than a vector.
template <typename Scores>
class RowReader {
 public:
  using Raw = typename Scores::Raw;
  using Vector = ScoreVector<Scores>;
  static constexpr uint32_t kPerVector = Vector::kCount;

  __device__ RowReader(const Raw* row, uint32_t n) : row_(row), n_(n) {
    const auto address = reinterpret_cast<uintptr_t>(row);
    const auto to_boundary = static_cast<uint32_t>((16 - address % 16) % 16 / sizeof(Raw));
    head_ = to_boundary < n ? to_boundary : n;
    vectors_ = (n - head_) / kPerVector;
  }

  __device__ uint32_t size() const { return n_; }
  __device__ uint32_t vectors() const { return vectors_; }
  __device__ const uint4* Address(uint32_t vector) const {
    return reinterpret_cast<const uint4*>(row_ + head_) + vector;
  }
  __device__ Vector Load(uint32_t vector) const { return Vector{__ldg(Address(vector))}; }
  __device__ uint32_t IndexOf(uint32_t vector, int place) const {
    return head_ + vector * kPerVector + static_cast<uint32_t>(place);
  }

  // Returns the number of scores outside the vectors. It is less than 2 * kPerVector, so a warp
  // reads them in one step.
  __device__ uint32_t edges() const { return n_ - vectors_ * kPerVector; }
  __device__ uint32_t EdgeIndex(uint32_t edge) const {
    return edge < head_ ? edge : edge + vectors_ * kPerVector;
  }
  __device__ Raw At(uint32_t index) const { return row_[index]; }

 private:
  const Raw* row_;
  uint32_t n_;
  uint32_t head_ = 0;
  uint32_t vectors_ = 0;
};

}  // namespace nearfield::gpu

// The rotation of bound/rotation.h for one vector, by one block, in fp64 in shared memory.
#pragma once

#include <cstdint>

#include "engine/bound/rotation_shape.h"
#include "engine/cuda/warp.h"

namespace nearfield::gpu {

// A vector in shared memory with one unused element after every eighth, so that adjacent threads
// that access elements 8 apart use different banks.
class RotatedVector {
 public:
  __device__ explicit RotatedVector(double* values) : values_(values) {}
  __host__ __device__ static constexpr int64_t Bytes(int32_t dimension) {
    return (int64_t{dimension} + dimension / 8 + 1) * 8;
  }
  __device__ double& operator[](int i) const { return values_[i + i / 8]; }

 private:
  double* const values_;
};

// Returns the words that one round's signs take, one bit each. There are two rounds.
__host__ __device__ constexpr int32_t SignWords(int32_t dimension) { return (dimension + 31) / 32; }

// Rotates vectors. Requires: all threads of the block call each function. Each ends with a barrier.
template <int kThreads>
class BlockRotation {
 public:
  // signs: 2 * SignWords words of shared memory, filled here.
  __device__ BlockRotation(const bound::RotationShape& shape, uint32_t* signs)
      : shape_(shape), signs_(signs) {
    const int words = SignWords(shape.dimension);
    for (int i = Thread(); i < 2 * words * 32; i += kThreads) {
      const int round = i / (words * 32);
      const bool flips = bound::RotationFlips(shape, round, i - round * words * 32);
      const unsigned word = __ballot_sync(kFullWarp, flips);
      if (i % 32 == 0) signs_[i / 32] = word;
    }
    __syncthreads();
  }

  __device__ void Forward(const RotatedVector& v, int shift) const {
    Flip(v, 0);
    Hadamard(v, 0, shift);
    Flip(v, 1);
    Hadamard(v, shape_.dimension - shape_.block, shift);
  }

  __device__ void BringBack(const RotatedVector& v, int shift) const {
    Hadamard(v, shape_.dimension - shape_.block, shift);
    Flip(v, 1);
    Hadamard(v, 0, shift);
    Flip(v, 0);
  }

 private:
  __device__ static int Thread() { return static_cast<int>(threadIdx.x); }

  __device__ void Flip(const RotatedVector& v, int round) const {
    const uint32_t* const words = signs_ + round * SignWords(shape_.dimension);
    for (int i = Thread(); i < shape_.dimension; i += kThreads) {
      if (((words[i / 32] >> (i % 32)) & 1) != 0) v[i] = -v[i];
    }
    __syncthreads();
  }

  // Transforms elements [first, first + shape_.block) and scales them by 2^-shift.
  __device__ void Hadamard(const RotatedVector& v, int first, int shift) const {
    int level = 0;
    for (; level + 3 <= shape_.log2_block; level += 3) {
      Levels<3>(v, first, level, level + 3 == shape_.log2_block ? shift : 0);
    }
    const int left = shape_.log2_block - level;
    if (left == 2) Levels<2>(v, first, level, shift);
    if (left == 1) Levels<1>(v, first, level, shift);
  }

  // Runs kLevels levels in one pass, with 2^kLevels elements in registers.
  template <int kLevels>
  __device__ void Levels(const RotatedVector& v, int first, int level, int shift) const {
    constexpr int kSize = 1 << kLevels;
    const int half = 1 << level;
    const double scale = __hiloint2double((1023 - shift) << 20, 0);  // 2^-shift
    for (int item = Thread(); item < shape_.block / kSize; item += kThreads) {
      const int begin = first + (item / half) * half * kSize + item % half;
      double x[kSize];
#pragma unroll
      for (int i = 0; i < kSize; ++i) x[i] = v[begin + i * half];
#pragma unroll
      for (int width = 1; width < kSize; width *= 2) {
#pragma unroll
        for (int i = 0; i < kSize; ++i) {
          if ((i & width) != 0) continue;
          const double a = x[i];
          const double b = x[i + width];
          x[i] = a + b;
          x[i + width] = a - b;
        }
      }
#pragma unroll
      for (int i = 0; i < kSize; ++i) v[begin + i * half] = x[i] * scale;
    }
    __syncthreads();
  }

  const bound::RotationShape shape_;
  uint32_t* const signs_;
};

}  // namespace nearfield::gpu

#include "tests/bench/select_input.h"

#include <algorithm>

#include "tests/bench/select_keys.cuh"
#include "tests/engine/topk/kit/select_cuda.h"
#include "tests/testing/random.h"

namespace nearfield::bench {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 2048;

struct FillSpec {
  select::Input input;
  uint64_t seed;
  int64_t total;  // batch * n
  int64_t n;
};

__device__ void Convert(float value, float* to) { *to = value; }
__device__ void Convert(float value, __half* to) { *to = __float2half_rn(value); }
__device__ void Convert(float value, __nv_bfloat16* to) { *to = __float2bfloat16_rn(value); }

// 1 with random low bits: the upper 20 bits of fp32, or the upper 12 of the other types, are those
// of 1.
__device__ void OneBin(uint32_t random, float* to) {
  *to = __uint_as_float(0x3f800000u | (random & 0xfffu));
}
__device__ void OneBin(uint32_t random, __half* to) {
  *to = __ushort_as_half(static_cast<unsigned short>(0x3c00u | (random & 0xfu)));
}
__device__ void OneBin(uint32_t random, __nv_bfloat16* to) {
  *to = __ushort_as_bfloat16(static_cast<unsigned short>(0x3f80u | (random & 0xfu)));
}

// Returns two independent normal values: Box and Muller, "A note on the generation of random normal
// deviates", 1958.
__device__ float2 Normals(uint64_t random) {
  const float first = static_cast<float>(static_cast<uint32_t>(random >> 32)) * 0x1p-32f + 0x1p-33f;
  const float second = static_cast<float>(static_cast<uint32_t>(random)) * 0x1p-31f;
  const float radius = sqrtf(-2.0f * logf(first));
  float sine = 0;
  float cosine = 0;
  sincospif(second, &sine, &cosine);
  return {radius * cosine, radius * sine};
}

template <typename Raw>
__device__ void FillOne(const FillSpec& spec, int64_t place, uint32_t random, Raw* to) {
  switch (spec.input) {
    case select::Input::kUniform: return Convert(static_cast<float>(random >> 8) * 0x1p-24f, to);
    case select::Input::kTwoValues: return Convert((random >> 31) != 0 ? 2.0f : 1.0f, to);
    case select::Input::kSortedUp:
    case select::Input::kSortedDown: {
      const double part = static_cast<double>(place % spec.n) / static_cast<double>(spec.n);
      const double rising = 2 * part - 1;
      return Convert(static_cast<float>(spec.input == select::Input::kSortedUp ? rising : -rising),
                     to);
    }
    case select::Input::kOneBin: return OneBin(random, to);
    default: return Convert(0.5f, to);
  }
}

// Fills an input from the counter of each pair of scores.
// Grid up to 2,048 blocks of 256, striding: one thread makes two neighbors from one 64-bit number.
// Writes total scores once; bound by the arithmetic of the normals, not by memory.
// Requires: total >= 1.
template <typename Raw>
__global__ void FillKernel(FillSpec spec, Raw* scores) {
  const int64_t pairs = (spec.total + 1) / 2;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t pair = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; pair < pairs;
       pair += stride) {
    const uint64_t random =
        testing::Scramble(spec.seed + static_cast<uint64_t>(pair) * 0x9e3779b97f4a7c15u);
    const int64_t place = 2 * pair;
    const bool both = place + 1 < spec.total;
    if (spec.input == select::Input::kNormal) {
      const float2 normals = Normals(random);
      Convert(normals.x, scores + place);
      if (both) Convert(normals.y, scores + place + 1);
    } else {
      FillOne(spec, place, static_cast<uint32_t>(random >> 32), scores + place);
      if (both) FillOne(spec, place + 1, static_cast<uint32_t>(random), scores + place + 1);
    }
  }
}

}  // namespace

absl::Status FillScores(const TimedCase& one, uint64_t seed, void* scores, cudaStream_t stream) {
  const FillSpec spec = {
      .input = one.input, .seed = seed, .total = one.shape.batch * one.shape.n, .n = one.shape.n};
  const int64_t blocks = std::min(((spec.total + 1) / 2 + kThreads - 1) / kThreads, kBlocksMax);
  WithScores(one.shape.type, scores, [&](auto* typed) {
    using Raw = std::remove_const_t<std::remove_pointer_t<decltype(typed)>>;
    FillKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(spec,
                                                                       static_cast<Raw*>(scores));
  });
  return select::CheckCuda(cudaGetLastError(), "filling the scores");
}

}  // namespace nearfield::bench

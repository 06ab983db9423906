// Scores of a sparse-attention indexer, for the example indexer.py: each key of a sequence against
// all query heads of its query, fused, so that the products of a head are never in memory.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kHeads = 64;
constexpr int kDims = 128;
constexpr int kWarps = 8;
constexpr int kTileKeys = 16;                       // rows of an mma
constexpr int kHeadTiles = kHeads / 8;              // columns of an mma: 8 heads
constexpr int kSteps = kDims / 16;                  // dimensions of an mma: 16
constexpr int kRoundKeys = kWarps * kTileKeys;      // keys that a block scores at a time
constexpr int64_t kBlockKeysMax = 64 * kRoundKeys;  // amortizes the loads of the queries
constexpr int kBlocksPerSm = 4;                     // blocks of a long launch, for balance
constexpr int64_t kBatchMax = 65535;                // of a grid

}  // namespace

extern "C" {

// All addresses are in device memory. Rows of keys and queries are 16-byte aligned.
struct IndexerCall {
  const uint8_t* keys;  // e4m3 [batch, n, 128], sequences `keys_stride` bytes apart
  int64_t keys_stride;
  const float* scales;  // [batch, n], of the keys; sequences `scales_stride` apart
  int64_t scales_stride;
  const uint8_t* queries;  // e4m3 [batch, 64, 128]
  const float* weights;    // [batch, 64], of the heads
  const int32_t* lengths;  // [batch], keys of each sequence, 0 to n
  float* scores;           // [batch, n]; those at and after the length are not written
  int64_t batch;
  int64_t n;
  void* stream;  // a cudaStream_t
};

}  // extern "C"

namespace {

// The part of 16 keys that a thread holds: of the rows lane / 4 and lane / 4 + 8.
struct Keys {
  uint4 rows[2][2];  // 32 of the 128 bytes
  float scales[2];
};

// Returns two e4m3 numbers as two halves, which hold them exactly.
__device__ __forceinline__ uint32_t Halves(uint32_t pair) {
  uint32_t result;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(result) : "h"(static_cast<uint16_t>(pair)));
  return result;
}

__device__ __forceinline__ uint32_t Word(const uint4 (&row)[2], int step) {
  const uint4& half = row[step / 4];
  const int at = step % 4;
  return at == 0 ? half.x : at == 1 ? half.y : at == 2 ? half.z : half.w;
}

// Adds the product of 16 keys and 8 heads over 16 dimensions.
__device__ __forceinline__ void Multiply(float (&sums)[4], const uint32_t (&keys)[4],
                                         const uint32_t (&queries)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(keys[0]), "r"(keys[1]), "r"(keys[2]), "r"(keys[3]), "r"(queries[0]), "r"(queries[1]));
}

// Loads the bytes of a row that the thread `quarter` of four holds: 16 of each half, so that the
// four read 64 contiguous bytes. The dimension of a byte is the same for keys and queries, and a
// sum over all dimensions needs no other order.
__device__ __forceinline__ void LoadRow(uint4 (&row)[2], const uint8_t* data, int quarter) {
  const auto* const words = reinterpret_cast<const uint4*>(data);
  row[0] = __ldg(words + quarter);
  row[1] = __ldg(words + 4 + quarter);
}

__device__ __forceinline__ Keys LoadKeys(const IndexerCall& call, int64_t first, int64_t length,
                                         int lane) {
  Keys keys;
  for (int half = 0; half < 2; ++half) {
    const int64_t row = min(first + lane / 4 + 8 * half, length - 1);
    LoadRow(keys.rows[half], call.keys + blockIdx.y * call.keys_stride + row * kDims, lane % 4);
    keys.scales[half] = __ldg(call.scales + blockIdx.y * call.scales_stride + row);
  }
  return keys;
}

// The queries and weights of a sequence as the operands of a thread: 144 registers.
struct Queries {
  uint32_t heads[kHeadTiles][kSteps][2];
  float weights[kHeadTiles][2];
};

__device__ __forceinline__ void LoadQueries(Queries& queries, const IndexerCall& call,
                                            int64_t sequence, int lane) {
  const uint8_t* const rows = call.queries + sequence * kHeads * kDims;
  const float* const weights = call.weights + sequence * kHeads;
#pragma unroll
  for (int tile = 0; tile < kHeadTiles; ++tile) {
    uint4 row[2];
    LoadRow(row, rows + (8 * tile + lane / 4) * kDims, lane % 4);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      queries.heads[tile][step][0] = Halves(Word(row, step) & 0xffffu);
      queries.heads[tile][step][1] = Halves(Word(row, step) >> 16);
    }
    for (int i = 0; i < 2; ++i) {
      queries.weights[tile][i] = __ldg(weights + 8 * tile + 2 * (lane % 4) + i);
    }
  }
}

// Computes, for every key, scale * (sum over heads of weight * max(0, query . key)).
// Grid (blocks, sequences), block 256: a warp scores 16 keys at a time against all 64 heads, whose
// halves stay in registers, and loads its next keys and scales before it multiplies.
// Reads  keys 128 B and scales 4 B each once; writes scores 4 B: 136 B per key, 16,384 flop.
// Order of a sum: products of one head as the tensor core adds them in fp32, then heads
// 0, 1, 8, 9, ... of each of four threads, then the threads: the same in every run. Sums of
// integers below 2^24 are exact.
// Requires block_keys % kRoundKeys == 0.
__global__ void __launch_bounds__(kWarps * 32, 1)
    ScoreKeys(const IndexerCall call, const int64_t block_keys) {
  const int64_t sequence = blockIdx.y;
  const int64_t length = min(static_cast<int64_t>(call.lengths[sequence]), call.n);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t block_end = min(length, (blockIdx.x + int64_t{1}) * block_keys);
  int64_t first = blockIdx.x * block_keys + static_cast<int>(threadIdx.x) / 32 * kTileKeys;
  if (first >= block_end) return;
  float* const scores = call.scores + sequence * call.n;
  Keys next = LoadKeys(call, first, length, lane);
  Queries queries;
  LoadQueries(queries, call, sequence, lane);
  while (first < block_end) {
    const Keys now = next;
    const int64_t following = first + kRoundKeys;
    if (following < block_end) next = LoadKeys(call, following, length, lane);
    float sums[kHeadTiles][4] = {};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const uint32_t upper = Word(now.rows[0], step);
      const uint32_t lower = Word(now.rows[1], step);
      const uint32_t operand[4] = {Halves(upper & 0xffffu), Halves(lower & 0xffffu),
                                   Halves(upper >> 16), Halves(lower >> 16)};
#pragma unroll
      for (int tile = 0; tile < kHeadTiles; ++tile) {
        Multiply(sums[tile], operand, queries.heads[tile][step]);
      }
    }
    float total[2] = {0, 0};
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 2; ++i) {
          total[half] =
              fmaf(queries.weights[tile][i], fmaxf(sums[tile][2 * half + i], 0.0f), total[half]);
        }
      }
    }
    for (int half = 0; half < 2; ++half) {
      total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
      total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
      const int64_t row = first + lane / 4 + 8 * half;
      if (lane % 4 == 0 && row < length) scores[row] = total[half] * now.scales[half];
    }
    first = following;
  }
}

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

extern "C" {

// Enqueues the scores of a batch on the current device. Asynchronous; can be captured in a graph.
// Returns a cudaError_t: cudaErrorInvalidValue for a batch or n out of range, or unaligned rows.
__attribute__((visibility("default"))) int32_t nf_indexer_scores(const IndexerCall* call) {
  const auto misaligned = reinterpret_cast<uintptr_t>(call->keys) % 16 +
                          reinterpret_cast<uintptr_t>(call->queries) % 16 +
                          static_cast<uintptr_t>(call->keys_stride % 16);
  if (call->batch < 1 || call->batch > kBatchMax || call->n < 1 || misaligned != 0) {
    return cudaErrorInvalidValue;
  }
  int device = 0;
  int sm_count = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (const cudaError_t error =
          cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device);
      error != cudaSuccess) {
    return error;
  }
  const int64_t share = DivideUp(call->batch * call->n, int64_t{sm_count} * kBlocksPerSm);
  const int64_t block_keys =
      std::clamp<int64_t>(DivideUp(share, kRoundKeys) * kRoundKeys, kRoundKeys, kBlockKeysMax);
  const dim3 grid(static_cast<unsigned>(DivideUp(call->n, block_keys)),
                  static_cast<unsigned>(call->batch));
  ScoreKeys<<<grid, kWarps * 32, 0, static_cast<cudaStream_t>(call->stream)>>>(*call, block_keys);
  return cudaGetLastError();
}

}  // extern "C"

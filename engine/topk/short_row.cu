// short_row: selects from rows that a block holds entirely in registers.
#include "engine/topk/short_row.h"

#include <cuda_runtime_api.h>

#include "engine/topk/algorithm.h"
#include "engine/topk/bucket_sort.cuh"
#include "engine/topk/score_rows.cuh"
#include "engine/topk/score_types.cuh"
#include "engine/topk/select_sources.cuh"

namespace nearfield::gpu {
namespace {

// A row's scores in registers. Thread t has those at t, t + kThreads, ...
template <typename Scores, int kThreads, int kItemsOf>
class RegisterScores {
 public:
  static constexpr int kItems = kItemsOf;

  struct Origin {
    const typename Scores::Raw* row;
    uint32_t n;
  };

  __device__ explicit RegisterScores(const Origin& origin) : n_(origin.n) {
    const typename Scores::Raw* const mine = origin.row + threadIdx.x;
#pragma unroll
    for (int j = 0; j < kItems; ++j) scores_[j] = has(j) ? Scores::Value(mine[j * kThreads]) : 0;
  }
  __device__ uint32_t count() const { return n_; }
  // Calls visit(entries[1], valid[1]) for each of this thread's entries.
  template <typename Visit>
  __device__ __forceinline__ void ForEachGroup(const Visit& visit) const {
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      if (!has(j)) break;
      const uint64_t entries[1] = {ScoreSource<Scores>::EntryOf(scores_[j], IndexOf(j))};
      const bool valid[1] = {true};
      visit(entries, valid);
    }
  }

 private:
  __device__ static uint32_t IndexOf(int j) {
    return threadIdx.x + static_cast<uint32_t>(j) * kThreads;
  }
  __device__ bool has(int j) const { return IndexOf(j) < n_; }

  const uint32_t n_;
  typename Scores::Score scores_[kItems];
};

template <uint32_t kBins>
struct BinsOnly {
  alignas(16) uint32_t bin_counts[kBins];

  __device__ uint32_t* bins() { return bin_counts; }
};

template <int kPolicy>
struct ShortRowShared
    : SortShared<kShortRowPolicies[kPolicy].threads, kShortRowPolicies[kPolicy].n_max(),
                 kShortRowPolicies[kPolicy].bin_bits,
                 BinsOnly<1u << kShortRowPolicies[kPolicy].bin_bits>> {
  __device__ uint64_t* sorted() { return this->keys; }  // the row itself is in registers
};

// An SM of compute capability 7.5 holds 1,024 threads; that of every newer GPU holds at least
// 1,536.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int kThreadsPerSm = 1024;
#else
constexpr int kThreadsPerSm = 1536;
#endif

constexpr int BlocksPerSm(const ShortRowPolicy& policy) {
  const int fitting = kThreadsPerSm / policy.threads;
  return policy.blocks_per_sm < fitting ? policy.blocks_per_sm : fitting;
}

// Selects the k best scores of each row, sorted.
// Grid rows, block of the policy.
// Reads each score once (4 or 2 B; neighboring threads read neighboring scores). Writes 8 B (6 B
// for 16-bit scores) per result. 1024 x 3,072 fp32, k = 64: 13 MB, 3 us at 4.53 TB/s. The chain of
// steps of a row is the bottleneck, so each SM runs several rows concurrently.
// Requires: n <= n_max of the policy, ScoreRows as stated there.
// Steps: 1 the row to registers; 2 a histogram over a monotone map of its scores; 3 the buckets of
// the k best to shared memory, ranked inside each.
// Source: the histogram selection of RadiK and of the published fp16-binned selection. Differs:
// bins follow the scores' own range, and the row is read once.
template <typename Scores, int kPolicy>
__global__ void __launch_bounds__(kShortRowPolicies[kPolicy].threads,
                                  BlocksPerSm(kShortRowPolicies[kPolicy]))
    ShortRowKernel(const __grid_constant__ ScoreRows rows) {
  constexpr ShortRowPolicy kShape = kShortRowPolicies[kPolicy];
  using Shared = ShortRowShared<kPolicy>;
  using Loaded = RegisterScores<Scores, kShape.threads, kShape.items>;
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  auto& shared = *reinterpret_cast<Shared*>(shared_bytes);
  const ScoreRow<Scores> row = RowAt<Scores>(rows, blockIdx.x);
  row.Pad(kShape.threads);
  if (row.n == 0) return;
  using Sort = BucketSort<ScoreSource<Scores>, Shared>;
  if (Sort::template TrySort<Loaded>({row.scores, row.n}, row.k, BitsOf<Scores>(row.n), shared,
                                     row.results)) {
    return;
  }
  for (uint32_t i = threadIdx.x; i < row.n; i += kShape.threads) {
    shared.keys[i] = KeyOf(Scores::Value(row.scores[i]), i);
  }
  __syncthreads();
  Sort::MergeSort(shared, row.n, row.k, row.results);
}

using Kernels = std::array<void (*)(ScoreRows), kShortRowPolicies.size()>;
constexpr std::array<std::size_t, kShortRowPolicies.size()> kSharedBytes = {
    sizeof(ShortRowShared<0>), sizeof(ShortRowShared<1>)};

Kernels KernelsOf(ScoreType type) {
  return WithScores(type, [](auto scores) {
    using Scores = decltype(scores);
    return Kernels{ShortRowKernel<Scores, 0>, ShortRowKernel<Scores, 1>};
  });
}

bool Fits(std::size_t policy, const SelectDevice& device) {
  return static_cast<int64_t>(kSharedBytes[policy]) <= device.shared_bytes_per_block_max;
}

// Returns the policy for a shape: few rows get a whole SM each.
std::size_t PolicyOf(const SelectShape& shape, const SelectDevice& device) {
  const bool fits_small = shape.n <= kShortRowPolicies[0].n_max();
  const bool prefers_small =
      shape.batch > device.sm_count || shape.n <= kShortRowPolicies[1].threads || !Fits(1, device);
  return fits_small && prefers_small ? 0 : 1;
}

const char* Refuses(const SelectShape& shape, const SelectDevice& device) {
  static_assert(kShortRowPolicies.back().n_max() == 16384, "said below");
  if (shape.n > kShortRowPolicies.back().n_max()) {
    return "n: short_row holds rows of at most 16384 scores";
  }
  if (Fits(PolicyOf(shape, device), device)) return nullptr;
  return "short_row needs more shared memory than a block has on this device";
}

int64_t WorkspaceBytes(const SelectShape&, const SelectDevice&) { return kSelectStateBytes; }

cudaError_t Prepare(const SelectDevice& device) {
  for (const ScoreType type : kScoreTypes) {
    for (std::size_t policy = 0; policy < kShortRowPolicies.size(); ++policy) {
      if (!Fits(policy, device)) continue;
      const cudaError_t error = cudaFuncSetAttribute(
          reinterpret_cast<const void*>(KernelsOf(type)[policy]),
          cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes[policy]));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t Launch(const SelectCall& call) {
  const SelectShape& shape = call.shape;
  const std::size_t policy = PolicyOf(shape, call.device);
  ScoreRows rows = call.rows;
  void* parameters[] = {&rows};
  return cudaLaunchKernel(reinterpret_cast<const void*>(KernelsOf(shape.type)[policy]),
                          dim3(static_cast<unsigned>(shape.batch)),
                          dim3(static_cast<unsigned>(kShortRowPolicies[policy].threads)),
                          parameters, kSharedBytes[policy], call.stream);
}

}  // namespace

extern const SelectAlgorithm kShortRow = {
    .name = "short_row",
    .summary =
        "the row in registers, a histogram over its own range, the k best ranked in their buckets",
    .refuses = Refuses,
    .workspace_bytes = WorkspaceBytes,
    .prepare = Prepare,
    .launch = Launch};

}  // namespace nearfield::gpu

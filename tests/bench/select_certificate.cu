#include "tests/bench/select_certificate.h"

#include <algorithm>

#include "tests/bench/select_keys.cuh"

namespace nearfield::bench {
namespace {

using select::CheckCuda;
using select::Download;

constexpr int kThreads = 256;
constexpr int64_t kBlocksMax = 2048;       // of a striding grid
constexpr int64_t kScoresPerBlock = 8192;  // when counting
constexpr uint64_t kNoFault = ~uint64_t{0};

unsigned StridingBlocks(int64_t threads) {
  return static_cast<unsigned>(std::min((threads + kThreads - 1) / kThreads, kBlocksMax));
}

__device__ int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
__device__ int64_t GlobalThreads() { return static_cast<int64_t>(gridDim.x) * kThreads; }

template <typename Raw>
struct Result {
  const Raw* scores;
  const Raw* values;
  const uint32_t* indices;
  int64_t n;
  int64_t k;
};

// Checks each place of each row, alone and against the place before it, and stores each row's
// last key. Grid batch, block 256, striding over the places of a row. Reads batch * k results and
// scores; writes 8 bytes per row, and the first faulty place.
template <typename Raw>
__global__ void CheckPlacesKernel(Result<Raw> result, unsigned long long* first_fault,
                                  uint64_t* last_keys) {
  const int64_t row = blockIdx.x;
  const Raw* const scores = result.scores + row * result.n;
  const uint32_t* const indices = result.indices + row * result.k;
  if (threadIdx.x == 0) last_keys[row] = ~uint64_t{0};  // remains if the last index is invalid
  __syncthreads();
  for (int64_t i = threadIdx.x; i < result.k; i += kThreads) {
    const uint32_t index = indices[i];
    bool good = index < result.n;
    if (good) {
      const uint64_t key = SortKey(scores[index], index);
      good = BitsOf(result.values[row * result.k + i]) == ResultBits(scores[index]);
      if (good && i > 0) {
        const uint32_t before = indices[i - 1];
        good = before >= result.n || SortKey(scores[before], before) > key;
      }
      if (i == result.k - 1) last_keys[row] = key;
    }
    if (!good) {
      atomicMin(first_fault,
                static_cast<unsigned long long>(row) << 32 | static_cast<unsigned long long>(i));
    }
  }
}

// Counts, for each row, the keys that are at least as large as that of the row's last result.
// Grid (batch, ceil(n / 8192) up to 65,535), block 256, striding over a row.
// Reads batch * n scores once; a warp that found some adds once to its row's count.
template <typename Raw>
__global__ void CountKernel(const Raw* scores, int64_t n, const uint64_t* last_keys,
                            unsigned long long* counts) {
  const int64_t row = blockIdx.x;
  const uint64_t last = last_keys[row];
  const int64_t stride = static_cast<int64_t>(gridDim.y) * kThreads;
  unsigned count = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x; i < n; i += stride) {
    count += SortKey(scores[row * n + i], static_cast<uint32_t>(i)) >= last ? 1u : 0u;
  }
  count = __reduce_add_sync(0xffffffffu, count);
  if (threadIdx.x % 32 == 0 && count != 0) atomicAdd(counts + row, count);
}

// Adds up a hash of each result and its place: the sum does not depend on the order of the threads.
// Grid up to 2,048 blocks of 256, striding. Reads all results once.
template <typename Raw>
__global__ void HashKernel(const Raw* values, const uint32_t* indices, int64_t count,
                           unsigned long long* hash) {
  uint64_t sum = 0;
  for (int64_t i = GlobalThread(); i < count; i += GlobalThreads()) {
    uint64_t x = (static_cast<uint64_t>(BitsOf(values[i])) << 32) | indices[i];
    x = (x + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebu;
    sum += x ^ (x >> 30);
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0) atomicAdd(hash, static_cast<unsigned long long>(sum));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SelectCertificate>> SelectCertificate::Create(int64_t batch_max,
                                                                             cudaStream_t stream) {
  std::unique_ptr<SelectCertificate> certificate(new SelectCertificate(stream));
  ABSL_RETURN_IF_ERROR(certificate->last_keys_.Allocate(8 * batch_max));
  ABSL_RETURN_IF_ERROR(certificate->counts_.Allocate(8 * batch_max));
  ABSL_RETURN_IF_ERROR(certificate->word_.Allocate(8));
  return certificate;
}

absl::Status SelectCertificate::Check(const select::Shape& shape, const select::Buffers& buffers) {
  if (shape.batch > counts_.bytes() / 8)
    return absl::InternalError("SelectCertificate: the batch is larger than batch_max");
  auto* const fault = word_.as<unsigned long long>();
  auto* const counts = counts_.as<unsigned long long>();
  auto* const last_keys = last_keys_.as<uint64_t>();
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemsetAsync(fault, 0xff, 8, stream_), "cudaMemsetAsync"));
  ABSL_RETURN_IF_ERROR(
      CheckCuda(cudaMemsetAsync(counts, 0, static_cast<size_t>(shape.batch) * 8, stream_),
                "cudaMemsetAsync"));
  const auto batch = static_cast<unsigned>(shape.batch);
  const int64_t chunks =
      std::min<int64_t>((shape.n + kScoresPerBlock - 1) / kScoresPerBlock, 65535);
  WithScores(shape.type, buffers.scores, [&](const auto* scores) {
    using Raw = std::remove_const_t<std::remove_pointer_t<decltype(scores)>>;
    const Result<Raw> result = {.scores = scores,
                                .values = static_cast<const Raw*>(buffers.values),
                                .indices = buffers.indices,
                                .n = shape.n,
                                .k = shape.k};
    CheckPlacesKernel<<<batch, kThreads, 0, stream_>>>(result, fault, last_keys);
    CountKernel<<<dim3(batch, static_cast<unsigned>(chunks)), kThreads, 0, stream_>>>(
        scores, shape.n, last_keys, counts);
  });
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaGetLastError(), "launching the check of the results"));
  ABSL_ASSIGN_OR_RETURN(const std::vector<unsigned long long> found, Download(fault, 1, stream_));
  if (found[0] != kNoFault) {
    return absl::DataLossError(absl::StrCat("first wrong index, value or order: row ",
                                            found[0] >> 32, ", place ", found[0] & 0xffffffffu));
  }
  ABSL_ASSIGN_OR_RETURN(const std::vector<unsigned long long> reaching,
                        Download(counts, shape.batch, stream_));
  for (size_t row = 0; row < reaching.size(); ++row) {
    if (reaching[row] == static_cast<unsigned long long>(shape.k)) continue;
    return absl::DataLossError(absl::StrCat("row ", row, ": ", reaching[row],
                                            " keys are at least the last result's, not ", shape.k));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SelectCertificate::Hash(const select::Shape& shape,
                                                 const select::Buffers& buffers) {
  auto* const hash = word_.as<unsigned long long>();
  const int64_t count = shape.batch * shape.k;
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemsetAsync(hash, 0, 8, stream_), "cudaMemsetAsync"));
  WithScores(shape.type, buffers.values, [&](const auto* values) {
    HashKernel<<<StridingBlocks(count), kThreads, 0, stream_>>>(values, buffers.indices, count,
                                                                hash);
  });
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaGetLastError(), "launching the hash"));
  ABSL_ASSIGN_OR_RETURN(const std::vector<unsigned long long> value, Download(hash, 1, stream_));
  return value[0];
}

}  // namespace nearfield::bench

#include "tests/bench/round_trip.h"

#include <cuda_runtime_api.h>

#include <cstring>

#include "engine/base/status_macros.h"
#include "tests/bench/block_bubble.h"
#include "tests/engine/topk/kit/select_cuda.h"

namespace nearfield::bench {
namespace {

using select::CheckCuda;

class CudaRoundTrip : public RoundTrip {
 public:
  CudaRoundTrip(int32_t dim, int32_t k_max)
      : query_bytes_(static_cast<size_t>(dim) * sizeof(float)),
        result_bytes_(static_cast<size_t>(k_max) * (sizeof(uint64_t) + sizeof(float))) {}
  CudaRoundTrip(const CudaRoundTrip&) = delete;
  CudaRoundTrip& operator=(const CudaRoundTrip&) = delete;
  ~CudaRoundTrip() override {
    cudaFree(device_);
    cudaFreeHost(pinned_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Init() {
    const size_t bytes = query_bytes_ + result_bytes_;
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&device_, bytes), "cudaMalloc"));
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaHostAlloc(&pinned_, bytes, cudaHostAllocDefault), "cudaHostAlloc"));
    return CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                     "cudaStreamCreate");
  }

  absl::Status PlaceQuery(absl::Span<const float> query) override {
    return CheckCuda(
        cudaMemcpy(device_, query.data(), query.size() * sizeof(float), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }

  absl::StatusOr<absl::Span<const float>> QueryDown() override {
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaMemcpyAsync(pinned_, device_, query_bytes_, cudaMemcpyDeviceToHost, stream_),
                  "cudaMemcpyAsync"));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    return absl::MakeConstSpan(static_cast<const float*>(pinned_), query_bytes_ / sizeof(float));
  }

  absl::Status ResultsUp(const Neighbors& neighbors) override {
    const size_t count = neighbors.scores.size();
    char* out = static_cast<char*>(pinned_) + query_bytes_;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t id = neighbors.ids.number(static_cast<int64_t>(i));
      std::memcpy(out + i * sizeof(id), &id, sizeof(id));
    }
    std::memcpy(out + count * sizeof(uint64_t), neighbors.scores.data(), count * sizeof(float));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemcpyAsync(static_cast<char*>(device_) + query_bytes_, out,
                                                   count * (sizeof(uint64_t) + sizeof(float)),
                                                   cudaMemcpyHostToDevice, stream_),
                                   "cudaMemcpyAsync"));
    return CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

 private:
  size_t query_bytes_;
  size_t result_bytes_;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

class CudaBlockBubble : public BlockBubbleBaseline {
 public:
  explicit CudaBlockBubble(int32_t dim) : dim_(dim) {}
  CudaBlockBubble(const CudaBlockBubble&) = delete;
  CudaBlockBubble& operator=(const CudaBlockBubble&) = delete;
  ~CudaBlockBubble() override { cudaFree(rows_); }

  absl::Status Init(absl::Span<const float> rows) {
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&rows_, rows.size() * sizeof(float)), "cudaMalloc"));
    return CheckCuda(
        cudaMemcpy(rows_, rows.data(), rows.size() * sizeof(float), cudaMemcpyHostToDevice),
        "cudaMemcpy");
  }

  absl::StatusOr<Neighbors> Search(absl::Span<const float> query, int64_t rows_count,
                                   int32_t k) override {
    return BlockBubbleSearch(
        {.rows = static_cast<const float*>(rows_), .rows_count = rows_count, .dim = dim_}, query,
        k);
  }

 private:
  int32_t dim_;
  void* rows_ = nullptr;
};

absl::Status DevicePresent() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    return absl::FailedPreconditionError("no GPU found");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RoundTrip>> MakeRoundTrip(int32_t dim, int32_t k_max) {
  ABSL_RETURN_IF_ERROR(DevicePresent());
  auto round_trip = std::make_unique<CudaRoundTrip>(dim, k_max);
  ABSL_RETURN_IF_ERROR(round_trip->Init());
  return round_trip;
}

absl::StatusOr<std::unique_ptr<BlockBubbleBaseline>> MakeBlockBubbleBaseline(
    absl::Span<const float> rows, int32_t dim) {
  ABSL_RETURN_IF_ERROR(DevicePresent());
  auto baseline = std::make_unique<CudaBlockBubble>(dim);
  ABSL_RETURN_IF_ERROR(baseline->Init(rows));
  return baseline;
}

}  // namespace nearfield::bench

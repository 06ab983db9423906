// The public selection library on a GPU: checks arguments, lays out the workspace, launches.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "engine/topk/algorithm.h"
#include "nearfield/engine/select.h"

namespace nearfield::select {
namespace {

using gpu::SelectAlgorithm;

constexpr int64_t kWorkspaceAlign = 256;
// The workspace begins with the state of the block groups; the algorithm's memory follows.
constexpr int64_t kGroupBytes = gpu::kGroupsMax * int64_t{sizeof(gpu::GroupState)};
constexpr int64_t kStateBytes = kGroupBytes + gpu::kSelectStateBytes;

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

absl::Status CheckShape(const Shape& shape) {
  ABSL_RETURN_IF_ERROR(CheckRange("type", static_cast<int64_t>(shape.type),
                                  static_cast<int64_t>(RowType::kFloat32),
                                  static_cast<int64_t>(RowType::kBFloat16)));
  ABSL_RETURN_IF_ERROR(CheckRange("batch", shape.batch, 1, kBatchMax));
  ABSL_RETURN_IF_ERROR(CheckRange("n", shape.n, 1, kColumnsMax));
  return CheckRange("k", shape.k, 1, shape.n);
}

absl::Status CheckAddress(const char* field, const void* address, int64_t align) {
  if (address == nullptr) return absl::InvalidArgumentError(absl::StrCat(field, " is null"));
  const auto rest =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(align));
  if (rest == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " lies ", rest, " bytes beyond a multiple of ", align));
}

gpu::SelectShape ToGpu(const Shape& shape) {
  gpu::SelectShape result;
  result.type = shape.type;
  result.batch = shape.batch;
  result.n = shape.n;
  result.k = shape.k;
  return result;
}

class GpuSelector final : public Selector {
 public:
  explicit GpuSelector(const gpu::SelectDevice& device) : device_(device) {}

  std::vector<AlgorithmInfo> Algorithms() const override {
    std::vector<AlgorithmInfo> infos = {
        {std::string(kAdaptive), "chooses among the others by a table measured on the device"}};
    for (const SelectAlgorithm* algorithm : gpu::AllSelectAlgorithms()) {
      infos.push_back({algorithm->name, algorithm->summary});
    }
    return infos;
  }

  absl::Status Supports(const Shape& shape, std::string_view algorithm) const override {
    return Find(shape, algorithm).status();
  }

  absl::StatusOr<std::string> Choice(const Shape& shape) const override {
    ABSL_ASSIGN_OR_RETURN(const SelectAlgorithm* const found, Find(shape, kAdaptive));
    return std::string(found->name);
  }

  absl::StatusOr<int64_t> WorkspaceBytes(const Shape& shape,
                                         std::string_view algorithm) const override {
    ABSL_ASSIGN_OR_RETURN(const SelectAlgorithm* const found, Find(shape, algorithm));
    const int64_t own = found->workspace_bytes(ToGpu(shape), device_);
    return kGroupBytes + std::max(own, gpu::kSelectStateBytes);
  }

  absl::Status InitWorkspace(void* workspace, int64_t bytes, Stream stream) const override {
    ABSL_RETURN_IF_ERROR(CheckAddress("workspace", workspace, kWorkspaceAlign));
    ABSL_RETURN_IF_ERROR(
        CheckRange("workspace bytes", bytes, kStateBytes, std::numeric_limits<int64_t>::max()));
    return Check(cudaMemsetAsync(workspace, 0, static_cast<std::size_t>(kStateBytes), stream),
                 "cudaMemsetAsync");
  }

  absl::Status Run(const Shape& shape, const Buffers& buffers, Stream stream,
                   std::string_view algorithm) const override {
    ABSL_ASSIGN_OR_RETURN(const SelectAlgorithm* const found, Find(shape, algorithm));
    ABSL_RETURN_IF_ERROR(CheckBuffers(shape, buffers));
    gpu::SelectCall call;
    call.shape = ToGpu(shape);
    call.device = device_;
    call.scores = buffers.scores;
    call.stride = buffers.stride == 0 ? shape.n : buffers.stride;
    call.values = buffers.values;
    call.indices = buffers.indices;
    call.groups = static_cast<gpu::GroupState*>(buffers.workspace);
    call.workspace = static_cast<char*>(buffers.workspace) + kGroupBytes;
    call.stream = stream;
    const int64_t needed =
        kGroupBytes + std::max(found->workspace_bytes(call.shape, device_), gpu::kSelectStateBytes);
    if (buffers.workspace_bytes < needed) {
      return absl::InvalidArgumentError(absl::StrCat("workspace_bytes = ", buffers.workspace_bytes,
                                                     ", ", found->name, " needs ", needed));
    }
    return Check(found->launch(call), found->name);
  }

 private:
  absl::StatusOr<const SelectAlgorithm*> Find(const Shape& shape,
                                              std::string_view algorithm) const {
    ABSL_RETURN_IF_ERROR(CheckShape(shape));
    if (algorithm == kAdaptive) return &gpu::ChooseSelect(ToGpu(shape), device_);
    for (const SelectAlgorithm* candidate : gpu::AllSelectAlgorithms()) {
      if (algorithm != candidate->name) continue;
      const char* const why_not = candidate->refuses(ToGpu(shape), device_);
      if (why_not == nullptr) return candidate;
      return absl::UnimplementedError(absl::StrCat(why_not, " (batch = ", shape.batch,
                                                   ", n = ", shape.n, ", k = ", shape.k, ")"));
    }
    return absl::NotFoundError(
        absl::StrCat("no selection algorithm '", std::string(algorithm), "'; see Algorithms()"));
  }

  static absl::Status CheckBuffers(const Shape& shape, const Buffers& buffers) {
    const int64_t score_bytes = BytesPerElement(shape.type);
    ABSL_RETURN_IF_ERROR(CheckAddress("scores", buffers.scores, score_bytes));
    ABSL_RETURN_IF_ERROR(CheckAddress("values", buffers.values, score_bytes));
    ABSL_RETURN_IF_ERROR(CheckAddress("indices", buffers.indices, int64_t{sizeof(uint32_t)}));
    ABSL_RETURN_IF_ERROR(CheckAddress("workspace", buffers.workspace, kWorkspaceAlign));
    if (buffers.stride == 0) return absl::OkStatus();
    return CheckRange("stride", buffers.stride, shape.n,
                      std::numeric_limits<int64_t>::max() / score_bytes / shape.batch);
  }

  const gpu::SelectDevice device_;
};

absl::StatusOr<gpu::SelectDevice> PropertiesOf(int device) {
  ABSL_RETURN_IF_ERROR(Check(cudaSetDevice(device), "cudaSetDevice"));
  const auto read = [device](cudaDeviceAttr attribute, int64_t* value) {
    int found = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&found, attribute, device);
    *value = found;
    return Check(error, "cudaDeviceGetAttribute");
  };
  gpu::SelectDevice properties;
  int64_t sm_count = 0;
  ABSL_RETURN_IF_ERROR(read(cudaDevAttrMultiProcessorCount, &sm_count));
  ABSL_RETURN_IF_ERROR(
      read(cudaDevAttrMaxSharedMemoryPerBlockOptin, &properties.shared_bytes_per_block_max));
  ABSL_RETURN_IF_ERROR(
      read(cudaDevAttrMaxSharedMemoryPerMultiprocessor, &properties.shared_bytes_per_sm));
  properties.sm_count = static_cast<int32_t>(sm_count);
  return properties;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Selector>> Selector::Create(const SelectorOptions& options) {
  const absl::Status usable = gpu::ProbeGpu(options.device);
  if (!usable.ok()) return absl::UnavailableError(usable.message());
  ABSL_ASSIGN_OR_RETURN(const gpu::SelectDevice device, PropertiesOf(options.device));
  for (const SelectAlgorithm* algorithm : gpu::AllSelectAlgorithms()) {
    ABSL_RETURN_IF_ERROR(Check(algorithm->prepare(device), algorithm->name));
  }
  return std::unique_ptr<Selector>(std::make_unique<GpuSelector>(device));
}

}  // namespace nearfield::select

// The public selection library on a GPU: checks arguments, lays out the workspace, launches.
#include "engine/topk/selector.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "engine/topk/key_sort.h"
#include "engine/topk/pack_rows.h"
#include "engine/topk/row_order.h"
#include "engine/topk/sampled_threshold.h"

namespace nearfield::select {
namespace {

using gpu::SelectAlgorithm;

constexpr int64_t kWorkspaceAlign = 256;
// The workspace begins with the state of the block groups; the algorithm's memory follows.
constexpr int64_t kGroupBytes = gpu::kRowGroupsMax * int64_t{sizeof(gpu::GroupState)};
// Ragged rows above this many per multiprocessor do not all start at once: they get an order.
constexpr int64_t kRowsPerSmMax = 2;
// Keeps products of strides, rows and bytes below 2^63.
constexpr int64_t kColumnStrideMax = int64_t{1} << 24;
constexpr int64_t kStateBytes = kGroupBytes + gpu::kSelectStateBytes;

absl::Status Check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // later calls on this thread must not find it
  return absl::UnavailableError(absl::StrCat(call, ": ", cudaGetErrorString(error)));
}

absl::Status CheckShape(const Shape& shape) {
  ABSL_RETURN_IF_ERROR(CheckRange("type", static_cast<int64_t>(shape.type),
                                  static_cast<int64_t>(ScoreType::kFloat32),
                                  static_cast<int64_t>(ScoreType::kUint32)));
  ABSL_RETURN_IF_ERROR(CheckRange("batch", shape.batch, 1, kBatchMax));
  ABSL_RETURN_IF_ERROR(CheckRange("n", shape.n, 1, shape.ragged ? kRaggedColumnsMax : kColumnsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("k", shape.k, 1, shape.n));
  return CheckRange("column_stride", shape.column_stride, 1, kColumnStrideMax);
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
  result.ragged = shape.ragged;
  return result;
}

// Parts of the workspace, in order, as offsets in bytes.
struct Layout {
  int64_t algorithm = kGroupBytes;  // after the state of the block groups
  int64_t order = 0;                // of ragged rows, longest first
  int64_t lengths = 0;              // of packed ragged rows
  int64_t packed = 0;               // rows whose scores are neighbors
  int64_t bytes = 0;

  bool has_order() const { return lengths > order; }
  bool has_packed() const { return bytes > packed; }
};

Layout LayoutOf(const Shape& shape, const SelectAlgorithm& algorithm,
                const gpu::SelectDevice& device) {
  const bool packs = shape.column_stride > 1;
  const bool orders = shape.ragged && shape.batch > device.sm_count * kRowsPerSmMax;
  const int64_t own = algorithm.workspace_bytes(ToGpu(shape), device);
  const int64_t batch_bytes = gpu::RoundUpTo256(shape.batch * 4);
  Layout layout;
  layout.order = layout.algorithm + gpu::RoundUpTo256(std::max(own, gpu::kSelectStateBytes));
  layout.lengths = layout.order + (orders ? batch_bytes : 0);
  layout.packed = layout.lengths + (packs && shape.ragged ? batch_bytes : 0);
  layout.bytes = layout.packed + (packs ? shape.batch * shape.n * BytesPerElement(shape.type) : 0);
  return layout;
}

class GpuSelector final : public Selector {
 public:
  GpuSelector(const gpu::SelectDevice& device, std::vector<const SelectAlgorithm*> algorithms)
      : device_(device), algorithms_(std::move(algorithms)) {}

  std::vector<AlgorithmInfo> Algorithms() const override {
    std::vector<AlgorithmInfo> infos = {
        {std::string(kAdaptive), "chooses among the others by a table measured on the device"}};
    for (const SelectAlgorithm* algorithm : algorithms_) {
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
    return LayoutOf(shape, *found, device_).bytes;
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
    const Layout layout = LayoutOf(shape, *found, device_);
    if (buffers.workspace_bytes < layout.bytes) {
      return absl::InvalidArgumentError(absl::StrCat("workspace_bytes = ", buffers.workspace_bytes,
                                                     ", ", found->name, " needs ", layout.bytes));
    }
    char* const memory = static_cast<char*>(buffers.workspace);
    gpu::SelectCall call;
    call.shape = ToGpu(shape);
    call.device = device_;
    ABSL_ASSIGN_OR_RETURN(call.rows, PrepareRows(shape, buffers, layout, stream));
    call.groups = reinterpret_cast<gpu::GroupState*>(memory);
    call.workspace = memory + layout.algorithm;
    call.stream = stream;
    return Check(found->launch(call), found->name);
  }

 private:
  absl::StatusOr<const SelectAlgorithm*> Find(const Shape& shape,
                                              std::string_view algorithm) const {
    ABSL_RETURN_IF_ERROR(CheckShape(shape));
    if (algorithm == kAdaptive) return &gpu::ChooseSelect(ToGpu(shape), device_);
    for (const SelectAlgorithm* candidate : algorithms_) {
      if (algorithm != candidate->name) continue;
      const char* const why_not = candidate->refuses(ToGpu(shape), device_);
      if (why_not == nullptr) return candidate;
      return absl::UnimplementedError(absl::StrCat(why_not, " (type = ", NameOf(shape.type),
                                                   ", batch = ", shape.batch, ", n = ", shape.n,
                                                   ", k = ", shape.k, ")"));
    }
    return absl::NotFoundError(
        absl::StrCat("no selection algorithm '", std::string(algorithm), "'; see Algorithms()"));
  }

  static absl::Status CheckBuffers(const Shape& shape, const Buffers& buffers) {
    for (const int32_t* const bounds : {buffers.row_begin, buffers.row_end}) {
      if (bounds == nullptr) continue;
      const char* const field = bounds == buffers.row_begin ? "row_begin" : "row_end";
      ABSL_RETURN_IF_ERROR(CheckAddress(field, bounds, int64_t{sizeof(int32_t)}));
    }
    if (!shape.ragged && (buffers.row_begin != nullptr || buffers.row_end != nullptr)) {
      return absl::InvalidArgumentError("row_begin or row_end is given, but ragged = 0, must be 1");
    }
    const int64_t score_bytes = BytesPerElement(shape.type);
    ABSL_RETURN_IF_ERROR(CheckAddress("scores", buffers.scores, score_bytes));
    ABSL_RETURN_IF_ERROR(CheckAddress("values", buffers.values, score_bytes));
    ABSL_RETURN_IF_ERROR(CheckAddress("indices", buffers.indices, int64_t{sizeof(uint32_t)}));
    ABSL_RETURN_IF_ERROR(CheckAddress("workspace", buffers.workspace, kWorkspaceAlign));
    if (buffers.stride == 0) return absl::OkStatus();
    const bool may_overlap = shape.ragged || shape.column_stride > 1;
    return CheckRange("stride", buffers.stride, may_overlap ? 1 : shape.n,
                      std::numeric_limits<int64_t>::max() / score_bytes / shape.batch / 2);
  }

  // Returns the rows as the algorithms read them. Enqueues the copy of rows whose scores are apart,
  // and the order of many ragged rows.
  static absl::StatusOr<gpu::ScoreRows> PrepareRows(const Shape& shape, const Buffers& buffers,
                                                    const Layout& layout, Stream stream) {
    char* const memory = static_cast<char*>(buffers.workspace);
    gpu::ScoreRows rows;
    rows.scores = buffers.scores;
    rows.stride = buffers.stride == 0 ? shape.n * shape.column_stride : buffers.stride;
    rows.row_begin = buffers.row_begin;
    rows.row_end = buffers.row_end;
    rows.n = static_cast<uint32_t>(shape.n);
    rows.k = static_cast<uint32_t>(shape.k);
    rows.values = buffers.values;
    rows.indices = buffers.indices;
    if (layout.has_packed()) {
      auto* const lengths =
          shape.ragged ? reinterpret_cast<int32_t*>(memory + layout.lengths) : nullptr;
      ABSL_RETURN_IF_ERROR(
          Check(gpu::LaunchPackRows(rows, shape.type, shape.batch, shape.column_stride,
                                    memory + layout.packed, lengths, stream),
                "pack_rows"));
      rows.scores = memory + layout.packed;
      rows.stride = shape.n;
      rows.row_begin = nullptr;
      rows.row_end = lengths;
    }
    if (layout.has_order()) {
      auto* const order = reinterpret_cast<uint32_t*>(memory + layout.order);
      ABSL_RETURN_IF_ERROR(
          Check(gpu::LaunchRowOrder(rows, shape.batch, order, stream), "row_order"));
      rows.order = order;
    }
    return rows;
  }

  const gpu::SelectDevice device_;
  const std::vector<const SelectAlgorithm*> algorithms_;  // those that can be forced
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

absl::StatusOr<std::unique_ptr<Selector>> CreateSelector(
    const SelectorOptions& options, std::span<const SelectAlgorithm* const> more) {
  const absl::Status usable = gpu::ProbeGpu(options.device);
  if (!usable.ok()) return absl::UnavailableError(usable.message());
  ABSL_ASSIGN_OR_RETURN(const gpu::SelectDevice device, PropertiesOf(options.device));
  const std::span<const SelectAlgorithm* const> chosen = gpu::AllSelectAlgorithms();
  std::vector<const SelectAlgorithm*> algorithms(chosen.begin(), chosen.end());
  algorithms.insert(algorithms.end(), more.begin(), more.end());
  for (const SelectAlgorithm* algorithm : algorithms) {
    ABSL_RETURN_IF_ERROR(Check(algorithm->prepare(device), algorithm->name));
  }
  return std::unique_ptr<Selector>(std::make_unique<GpuSelector>(device, std::move(algorithms)));
}

absl::StatusOr<std::unique_ptr<Selector>> Selector::Create(const SelectorOptions& options) {
  return CreateSelector(options, {});
}

}  // namespace nearfield::select

// Moves rows into the slabs, between slabs, and out of them. A warp moves one row at a time.
#include <cstdint>

#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/gpu/kernels/primitives/warp_tree.cuh"
#include "engine/gpu/memory/layout.h"
#include "engine/score/score.h"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
// Enough to keep pace with the copy engine, few enough to leave a running scan its multiprocessors.
constexpr int kBlocksMax = 64;

__device__ uint32_t WarpIndex() { return blockIdx.x * kWarps + threadIdx.x / kWarp; }
__device__ uint32_t WarpStride() { return gridDim.x * kWarps; }
__device__ int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }

// Stores row-major rows into the slabs, padded and interleaved, and computes S(x,x) in fp64.
// Grid <= 64 blocks of 256: a warp owns one row at a time; lane L holds the dimensions d mod 32 ==
// L.
// Reads dim elements per row (one per lane, coalesced), writes padded elements (16- or 8-byte
// stores) and 8 B of norm. 8 MB of fp32 rows: 16 MB of traffic; runs concurrently with a scan, on a
// stream of lower priority.
// Requires: [first, first + count) is inside the reservation.
// Steps: 1 four dimensions per lane of each block, 2 tail, 3 canonical tree for the norm.
template <typename Row>
__global__ void __launch_bounds__(kThreads)
    StoreRowsKernel(const RowsView rows, const typename Row::Element* source, uint32_t first,
                    uint32_t count) {
  using Element = typename Row::Element;
  const int lane = Lane();
  const RowShape shape = rows.shape;
  for (uint32_t index = WarpIndex(); index < count; index += WarpStride()) {
    const Element* from = source + static_cast<int64_t>(index) * shape.dim;
    char* const to = rows.row(first + index);
    double sums[1] = {0.0};
    const auto load = [&](int d) { return d < shape.dim ? from[d] : Element{0}; };
    for (int block = 0; block < shape.full_blocks; ++block) {
      Element four[kLaneDims];
#pragma unroll
      for (int j = 0; j < kLaneDims; ++j) {
        four[j] = load(block * kBlockDims + j * kWarp + lane);
        const double value = Row::Value(four[j]);
        sums[0] = score::DotStep(value, value, sums[0]);
      }
      reinterpret_cast<typename Row::Quad*>(to)[block * kWarp + lane] = Row::Pack(four);
    }
    for (int word = 0; word < shape.tail_words; ++word) {
      const int d = shape.full_blocks * kBlockDims + word * kWarp + lane;
      const Element element = load(d);
      const double value = Row::Value(element);
      sums[0] = score::DotStep(value, value, sums[0]);
      reinterpret_cast<Element*>(to)[d] = element;
    }
    const double squared = WarpTree(sums, lane);
    if (lane == 0) *rows.norm(first + index) = squared;
  }
}

// Copies stored rows and their norms from one set of slabs to another; the layout is the same.
// Grid <= 64 blocks of 256: a warp owns one row at a time.
// Reads and writes row_bytes + 8 B per row in 8-byte accesses (a padded row is a multiple of 64 B).
// Requires: slots inside `from`, and equal shapes.
__global__ void __launch_bounds__(kThreads)
    CopyRowsKernel(const __grid_constant__ CopyRowsArgs args) {
  const int lane = Lane();
  for (uint32_t index = WarpIndex(); index < args.count; index += WarpStride()) {
    const uint32_t slot = args.slots[index];
    const auto* from = reinterpret_cast<const uint2*>(args.from.row(slot));
    auto* const to = reinterpret_cast<uint2*>(args.to.row(args.first + index));
    const int words = static_cast<int>(args.to.row_bytes / 8);
    for (int word = lane; word < words; word += kWarp) to[word] = from[word];
    if (lane == 0) *args.to.norm(args.first + index) = *args.from.norm(slot);
  }
}

// Copies stored rows back to row-major order.
// Grid <= 64 blocks of 256: a warp owns one row at a time.
// Reads and writes dim elements per row, one per lane, coalesced on the row-major side.
// Requires: slots inside the rows.
template <typename Element>
__global__ void __launch_bounds__(kThreads)
    LoadRowsKernel(const __grid_constant__ LoadRowsArgs args) {
  const int lane = Lane();
  const RowShape shape = args.rows.shape;
  for (uint32_t index = WarpIndex(); index < args.count; index += WarpStride()) {
    const uint32_t slot = args.slots != nullptr ? args.slots[index] : args.first + index;
    const auto* from = reinterpret_cast<const Element*>(args.rows.row(slot));
    Element* const to =
        static_cast<Element*>(args.target) + static_cast<int64_t>(index) * shape.dim;
    for (int d = lane; d < shape.dim; d += kWarp) to[d] = from[RowPosition(shape, d)];
  }
}

cudaError_t Launch(const void* kernel, uint32_t rows_count, void** parameters,
                   cudaStream_t stream) {
  if (rows_count == 0) return cudaSuccess;
  const uint32_t blocks = (rows_count + kWarps - 1) / kWarps;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks < kBlocksMax ? blocks : kBlocksMax);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

const void* StoreKernelOf(RowType row) {
  switch (row) {
    case RowType::kFloat32: return reinterpret_cast<const void*>(StoreRowsKernel<Float32Row>);
    case RowType::kFloat16: return reinterpret_cast<const void*>(StoreRowsKernel<Float16Row>);
    case RowType::kBFloat16: break;
  }
  return reinterpret_cast<const void*>(StoreRowsKernel<BFloat16Row>);
}

const void* LoadKernelOf(RowType row) {
  return row == RowType::kFloat32 ? reinterpret_cast<const void*>(LoadRowsKernel<uint32_t>)
                                  : reinterpret_cast<const void*>(LoadRowsKernel<uint16_t>);
}

}  // namespace

cudaError_t PrepareLayout() {
  const void* kernels[] = {
      StoreKernelOf(RowType::kFloat32),  StoreKernelOf(RowType::kFloat16),
      StoreKernelOf(RowType::kBFloat16), LoadKernelOf(RowType::kFloat32),
      LoadKernelOf(RowType::kFloat16),   reinterpret_cast<const void*>(CopyRowsKernel)};
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes = {};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchStoreRows(RowType row, const RowsView& rows, const void* source, uint32_t first,
                            uint32_t count, cudaStream_t stream) {
  RowsView view = rows;
  void* parameters[] = {&view, &source, &first, &count};
  return Launch(StoreKernelOf(row), count, parameters, stream);
}

cudaError_t LaunchCopyRows(const CopyRowsArgs& args, cudaStream_t stream) {
  CopyRowsArgs copy = args;
  void* parameters[] = {&copy};
  return Launch(reinterpret_cast<const void*>(CopyRowsKernel), args.count, parameters, stream);
}

cudaError_t LaunchLoadRows(RowType row, const LoadRowsArgs& args, cudaStream_t stream) {
  LoadRowsArgs copy = args;
  void* parameters[] = {&copy};
  return Launch(LoadKernelOf(row), args.count, parameters, stream);
}

}  // namespace nearfield::gpu

// bf16 copies of rows: a warp makes that of one row at a time.
#include "engine/gpu/kernels/codes/encode_bf16.h"

#include <cstdint>

#include "engine/gpu/kernels/common/row_elements.cuh"
#include "engine/gpu/kernels/common/row_layout.h"
#include "engine/score/bf16_bound.h"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 128;
constexpr uint32_t kWarps = kThreads / kWarp;
// As many as encode int8 codes: enough for the link's pace.
constexpr uint32_t kBlocksMax = 128;

__device__ __forceinline__ double WarpSum(double value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, step);
  }
  return value;
}

// Turns rows into bf16 copies and bounds (corpus/scan_code.h, the same claims).
// Grid <= 128 blocks of 128: a warp owns a row at a time, a lane eight neighbouring elements. Reads
// dim elements twice (the second time from cache), writes code_bytes + 16 B a row.
// Steps: 1 the row's norm, 2 elements, what they leave out, their norm, 3 bound.
template <typename Row>
__global__ void __launch_bounds__(kThreads)
    EncodeBf16RowsKernel(const __grid_constant__ EncodeRowsArgs args) {
  constexpr int kPieceElements = 8;
  const int dimension = args.rotation.dimension;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool cosine = args.metric == ScanMetric::kCosine;
  for (uint32_t index = blockIdx.x * kWarps + threadIdx.x / kWarp; index < args.count;
       index += gridDim.x * kWarps) {
    const auto* const source = static_cast<const typename Row::Element*>(args.source) +
                               static_cast<int64_t>(index) * dimension;
    double squares = 0;
    for (int i = lane; i < dimension; i += kWarp) {
      const double value = Row::Value(source[i]);
      squares += value * value;
    }
    squares = WarpSum(squares);
    const double norm = squares > 0 ? sqrt(squares) : 1.0;
    double residual = 0;
    double copied = 0;
    for (int piece = lane; piece < args.codes.code_bytes / 16; piece += kWarp) {
      uint32_t words[kPieceElements / 2] = {};
#pragma unroll
      for (int j = 0; j < kPieceElements; ++j) {
        const int i = piece * kPieceElements + j;
        double value = i < dimension ? Row::Value(source[i]) : 0.0;
        if (cosine) value /= norm;
        const uint32_t bits = score::Bf16CopyBits(static_cast<float>(value));
        const double element = static_cast<double>(__uint_as_float(bits << 16));
        residual += (value - element) * (value - element);
        copied += element * element;
        words[j / 2] |= bits << (16 * (j % 2));
      }
      *reinterpret_cast<uint4*>(args.codes.piece(args.first + index, piece)) =
          uint4{words[0], words[1], words[2], words[3]};
    }
    residual = WarpSum(residual);
    copied = WarpSum(copied);
    if (lane != 0) continue;
    score::RowBound bound;
    if (cosine && squares == 0.0) {
      bound.residual = score::MinusInfinity();
    } else {
      bound = score::MakeBf16RowBound(residual, copied,
                                      args.metric == ScanMetric::kL2 ? squares : 0.0, dimension);
    }
    *args.codes.bound(args.first + index) = bound;
  }
}

const void* KernelOf(ScanRow row) {
  switch (row) {
    case ScanRow::kFloat32:
      return reinterpret_cast<const void*>(EncodeBf16RowsKernel<Float32Row>);
    case ScanRow::kFloat16:
      return reinterpret_cast<const void*>(EncodeBf16RowsKernel<Float16Row>);
    case ScanRow::kBFloat16:
      break;
  }
  return reinterpret_cast<const void*>(EncodeBf16RowsKernel<BFloat16Row>);
}

}  // namespace

cudaError_t PrepareEncodeBf16() {
  for (const ScanRow row : {ScanRow::kFloat32, ScanRow::kFloat16, ScanRow::kBFloat16}) {
    cudaFuncAttributes attributes = {};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, KernelOf(row));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchEncodeBf16Rows(ScanRow row, const EncodeRowsArgs& args, cudaStream_t stream) {
  const uint32_t blocks = (args.count + kWarps - 1) / kWarps;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks < kBlocksMax ? blocks : kBlocksMax);
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  EncodeRowsArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, KernelOf(row), parameters);
}

}  // namespace nearfield::gpu

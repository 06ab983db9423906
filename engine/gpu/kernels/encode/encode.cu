// Encodes rows as int8 codes, one row at a time per block, and copies codes between slabs.
#include "engine/gpu/kernels/encode/encode.h"

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/encode/block_rotation.cuh"
#include "engine/gpu/kernels/encode/block_sums.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"

namespace nearfield::gpu {
namespace {

constexpr int kThreads = 128;
// Enough to keep up with PCIe, and few enough to leave the SMs to a running scan.
constexpr uint32_t kBlocksMax = 128;

struct Scratch {
  double* values;
  uint32_t* signs;
  int8_t* codes;  // the first code, then the second

  __host__ __device__ static constexpr int64_t Bytes(int32_t dimension) {
    return RotatedVector::Bytes(dimension) + 8 * SignWords(dimension) + 2 * CodeBytesOf(dimension) +
           32;
  }
  __device__ Scratch(char* base, int32_t dimension)
      : values(reinterpret_cast<double*>(base)),
        signs(reinterpret_cast<uint32_t*>(base + RotatedVector::Bytes(dimension))),
        codes(reinterpret_cast<int8_t*>(signs + (2 * SignWords(dimension) + 3) / 4 * 4)) {
    // The codes are read with 16-byte loads.
    const auto address = reinterpret_cast<uintptr_t>(codes);
    codes += (16 - address % 16) % 16;
  }
};

// A code of a row. usable: its scale is; else all its integers are 0.
struct TakenCode {
  float scale;
  bool usable;
  double norm;  // CodeNormUp
};

// Encodes rows as codes and bounds. Each step gives the guarantees of bound/int8_code.h; the
// codes themselves may differ in their last unit.
// Grid <= 128 blocks of 128; a block encodes one row at a time. Reads the row twice (the second
// time from cache), for each code; writes code_bytes + 16 B per row and code. fp64: 4 x D log2 D
// additions, 16 passes through shared memory at D = 1024: about 2 us per row and block, or 64 M
// rows/s; PCIe delivers 13 M rows/s. A second code takes half as much again.
// Requires Scratch::Bytes of dynamic shared memory.
// Steps: 1 widen, for cosine divide by the norm, 2 rotate, 3 scale and code, and again for what
// they leave, 4 inverse rotation of one code, or of both, 5 residual, 6 bound.
template <typename Row>
__global__ void __launch_bounds__(kThreads)
    EncodeRowsKernel(const __grid_constant__ EncodeRowsArgs args) {
  extern __shared__ double2 shared_bytes[];
  __shared__ BlockSumsShared sums_shared;
  const int dimension = args.rotation.dimension;
  const int code_bytes = args.codes.code_bytes;
  const Scratch scratch(reinterpret_cast<char*>(shared_bytes), dimension);
  const RotatedVector v(scratch.values);
  const BlockRotation<kThreads> rotation(args.rotation, scratch.signs);
  BlockSums<kThreads> sums(sums_shared);
  const int thread = static_cast<int>(threadIdx.x);
  const bool cosine = args.metric == Metric::kCosine;
  const int codes_count = args.codes.has_second() ? 2 : 1;
  for (uint32_t index = blockIdx.x; index < args.count; index += gridDim.x) {
    const auto* const source = static_cast<const typename Row::Element*>(args.source) +
                               static_cast<int64_t>(index) * dimension;
    double squares = 0;
    for (int i = thread; i < dimension; i += kThreads) {
      const double value = Row::Value(source[i]);
      v[i] = value;
      squares += value * value;
    }
    squares = sums.Sum(squares);
    const double norm = cosine && squares > 0 ? sqrt(squares) : 1.0;
    if (cosine) {
      for (int i = thread; i < dimension; i += kThreads) v[i] /= norm;
      __syncthreads();
    }
    rotation.Forward(v, args.rotation.row_shift);
    // Takes a code of v and subtracts it from v.
    const auto take = [&](int8_t* codes) {
      double magnitude = 0;
      for (int i = thread; i < dimension; i += kThreads) magnitude = fmax(magnitude, fabs(v[i]));
      const float scale = bound::CodeScale(sums.Max(magnitude));
      const bool usable = scale > 0.0f && isfinite(scale);
      const double inverse = usable ? 1.0 / static_cast<double>(scale) : 0.0;
      double code_squares = 0;
      for (int i = thread; i < code_bytes; i += kThreads) {
        const double code = i < dimension && usable ? bound::CodeOf(v[i], inverse) : 0.0;
        if (i < dimension && usable) v[i] -= static_cast<double>(scale) * code;
        codes[i] = static_cast<int8_t>(code);
        code_squares += code * code;
      }
      // The sum of the squares is exact: integers below 2^53.
      const auto exact = static_cast<int64_t>(sums.Sum(code_squares));
      return TakenCode{scale, usable, bound::CodeNormUp(scale, exact)};
    };
    TakenCode taken[2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (c < codes_count) taken[c] = take(scratch.codes + c * code_bytes);
    }
    double code_norms = 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      if (c == codes_count) break;
      // The sum of the codes so far, in the space of the row.
      for (int i = thread; i < dimension; i += kThreads) {
        double value = 0;
#pragma unroll
        for (int other = 0; other <= c; ++other) {
          const double code = scratch.codes[other * code_bytes + i];
          if (taken[other].usable) value += static_cast<double>(taken[other].scale) * code;
        }
        v[i] = value;
      }
      __syncthreads();
      // The inverse of the rotation of rows scales by the shift of queries (bound/rotation.h).
      rotation.BringBack(v, args.rotation.query_shift);
      double residual = 0;
      for (int i = thread; i < dimension; i += kThreads) {
        const double value = Row::Value(source[i]);
        const double left = (cosine ? value / norm : value) - v[i];
        residual += left * left;
      }
      residual = sums.Sum(residual);
      code_norms += taken[c].norm;
      const CodesView view = c == 0 ? args.codes : args.codes.second();
      for (int i = thread; i < code_bytes / 16; i += kThreads) {
        *reinterpret_cast<uint4*>(view.chunk(args.first + index, i)) =
            reinterpret_cast<const uint4*>(scratch.codes + c * code_bytes)[i];
      }
      if (thread != 0) continue;
      bound::RowBound bound;
      if (cosine && squares == 0.0) {
        bound.residual = score::MinusInfinity();
      } else {
        bound = bound::MakeRowBound(taken[c].scale, residual, code_norms,
                                    bound::RotationError(args.rotation),
                                    args.metric == Metric::kL2 ? squares : 0.0, dimension);
      }
      *view.bound(args.first + index) = bound;
    }
    __syncthreads();  // all threads have read the codes before those of the next row are written
  }
}

// Copies codes and bounds between slabs.
// Grid <= 128 blocks of 128; a warp copies one row at a time. Reads and writes code_bytes + 16 B
// per row and code.
__global__ void __launch_bounds__(kThreads)
    CopyCodesKernel(const __grid_constant__ CopyCodesArgs args) {
  constexpr uint32_t kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (uint32_t index = blockIdx.x * kWarps + threadIdx.x / kWarp; index < args.count;
       index += gridDim.x * kWarps) {
    const uint32_t slot = args.slots[index];
    const auto copy = [&](const CodesView& from, const CodesView& to) {
      for (int i = lane; i < to.code_bytes / 16; i += kWarp) {
        *reinterpret_cast<uint4*>(to.chunk(args.first + index, i)) =
            *reinterpret_cast<const uint4*>(from.chunk(slot, i));
      }
      if (lane == 0) *to.bound(args.first + index) = *from.bound(slot);
    };
    copy(args.from, args.to);
    if (args.to.has_second()) copy(args.from.second(), args.to.second());
  }
}

const void* EncodeKernelOf(RowType row) {
  switch (row) {
    case RowType::kFloat32: return reinterpret_cast<const void*>(EncodeRowsKernel<Float32Row>);
    case RowType::kFloat16: return reinterpret_cast<const void*>(EncodeRowsKernel<Float16Row>);
    case RowType::kBFloat16: break;
  }
  return reinterpret_cast<const void*>(EncodeRowsKernel<BFloat16Row>);
}

cudaError_t Launch(const void* kernel, uint32_t blocks, int64_t shared_bytes, void* args,
                   cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks < kBlocksMax ? blocks : kBlocksMax);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  void* parameters[] = {args};
  return cudaLaunchKernelExC(&config, kernel, parameters);
}

}  // namespace

cudaError_t PrepareEncode(int64_t shared_bytes_max, int32_t* dim_max) {
  const auto bytes = [](int32_t dim) {
    return Scratch::Bytes(dim) + int64_t{sizeof(BlockSumsShared)};
  };
  while (*dim_max > 0 && bytes(*dim_max) > shared_bytes_max) --*dim_max;
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const cudaError_t error =
        cudaFuncSetAttribute(EncodeKernelOf(row), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(Scratch::Bytes(*dim_max)));
    if (error != cudaSuccess) return error;
  }
  cudaFuncAttributes attributes = {};
  return cudaFuncGetAttributes(&attributes, CopyCodesKernel);
}

cudaError_t LaunchEncodeRows(RowType row, const EncodeRowsArgs& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  EncodeRowsArgs copy = args;
  return Launch(EncodeKernelOf(row), args.count, Scratch::Bytes(args.rotation.dimension), &copy,
                stream);
}

cudaError_t LaunchCopyCodes(const CopyCodesArgs& args, cudaStream_t stream) {
  if (args.count == 0) return cudaSuccess;
  CopyCodesArgs copy = args;
  return Launch(reinterpret_cast<const void*>(CopyCodesKernel), (args.count + 3) / 4, 0, &copy,
                stream);
}

}  // namespace nearfield::gpu

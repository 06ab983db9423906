// Launches the refine kernels: after a stage they score queued rows and raise thresholds, and at
// the end they write the answers.
#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {
namespace {

BatchRefinePointer KernelOf(RowType row, bool many) {
  switch (row) {
    case RowType::kFloat32: return BatchRefineFloat32(many);
    case RowType::kFloat16: return BatchRefineFloat16(many);
    case RowType::kBFloat16: break;
  }
  return BatchRefineBFloat16(many);
}

// Up to one query per SM of an H100 or H200 (132), a block of kRefineMany threads per query is
// faster. With more queries, two blocks of kRefineFew threads per SM are.
constexpr int kManyThreadsQueriesMax = 132;

int64_t SharedBytes(int32_t dimension, int32_t code_bytes, bool many) {
  return many ? RefineSharedBytes<kRefineMany>(dimension, code_bytes)
              : RefineSharedBytes<kRefineFew>(dimension, code_bytes);
}

}  // namespace

cudaError_t PrepareBatchRefine(int32_t dimension_max) {
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const bool many : {false, true}) {
      const int64_t bytes = SharedBytes(dimension_max, CodeBytesOf(dimension_max), many);
      const cudaError_t error = cudaFuncSetAttribute(
          reinterpret_cast<const void*>(KernelOf(row, many)),
          cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchBatchRefine(RowType row, const BatchArgs& args, const BatchStage& stage,
                              cudaStream_t stream) {
  const bool many = args.queries <= kManyThreadsQueriesMax;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.queries));
  config.blockDim = dim3(many ? kRefineMany : kRefineFew);
  config.dynamicSmemBytes =
      static_cast<size_t>(SharedBytes(args.rotation.dimension, args.code_stride, many));
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(KernelOf(row, many)),
                             parameters);
}

}  // namespace nearfield::gpu

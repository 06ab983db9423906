#include "engine/gpu/kernels/single/one_query.h"

#include "engine/gpu/kernels/single/one_query_kernel.cuh"
#include "engine/gpu/kernels/single/one_query_table.h"

namespace nearfield::gpu {
namespace {

OneQueryPointer KernelOf(RowType row) {
  switch (row) {
    case RowType::kFloat32: return OneQueryFloat32();
    case RowType::kFloat16: return OneQueryFloat16();
    case RowType::kBFloat16: break;
  }
  return OneQueryBFloat16();
}

}  // namespace

int64_t OneQuerySharedBytes(int32_t dimension, int32_t code_bytes) {
  return OneQueryLayout(dimension, code_bytes).bytes;
}

cudaError_t PrepareOneQuery(int32_t dim_max, int64_t shared_bytes_max, bool* fits) {
  const int64_t bytes = OneQuerySharedBytes(dim_max, CodeBytesOf(dim_max));
  *fits = bytes + int64_t{sizeof(OneQueryShared)} <= shared_bytes_max;
  if (!*fits) return cudaSuccess;
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    const cudaError_t error =
        cudaFuncSetAttribute(reinterpret_cast<const void*>(KernelOf(row)),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t LaunchOneQuery(RowType row, int blocks, const OneQueryArgs& args, cudaStream_t stream) {
  const int32_t code_bytes = args.corpus.generations[0].codes.code_bytes;
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kOneQueryThreads);
  config.dynamicSmemBytes = static_cast<size_t>(OneQuerySharedBytes(args.dim, code_bytes));
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  void* parameters[] = {const_cast<OneQueryArgs*>(&args)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(KernelOf(row)), parameters);
}

}  // namespace nearfield::gpu

// Chooses the kernels that scan the codes for a batch, and prepares all kernels of a batch.
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {

bool BuildHasWgmma() { return NEARFIELD_WGMMA != 0; }

int BatchQueriesAtOnce(const BatchDevice& device, int queries, int32_t code_stride) {
#if NEARFIELD_WGMMA
  if (device.wgmma) return BatchQueriesAtOnceWgmma(queries, code_stride);
#endif
  static_cast<void>(code_stride);
  return BatchQueriesAtOnceMma(device, queries);
}

cudaError_t PrepareBatch(const BatchDevice& device, int32_t* dimension_max) {
  *dimension_max = kBatchDimMax;
  cudaError_t error = PrepareBatchEncode(device, dimension_max);
  if (error == cudaSuccess) error = PrepareBatchRefine(device, dimension_max);
  if (error != cudaSuccess) return error;
#if NEARFIELD_WGMMA
  if (device.wgmma) return PrepareBatchScanWgmma();
#endif
  return PrepareBatchScanMma(device);
}

cudaError_t LaunchBatchScan(const BatchArgs& args, const BatchStage& stage,
                            const BatchDevice& device, cudaStream_t stream) {
  if (stage.tiles == 0) return cudaSuccess;
#if NEARFIELD_WGMMA
  if (device.wgmma) return LaunchBatchScanWgmma(args, stage, device.sm_count, stream);
#endif
  return LaunchBatchScanMma(args, stage, device, stream);
}

}  // namespace nearfield::gpu

// Chooses the kernels that scan for a batch, and prepares all kernels of a batch.
#include "engine/gpu/kernels/batch/batch.h"

#include <algorithm>

#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {
namespace {

BatchScanRowsVariant ScanRowsVariant(RowType row, bool all, bool chooses) {
  switch (row) {
    case RowType::kFloat32: return BatchScanRowsFloat32(all, chooses);
    case RowType::kFloat16: return BatchScanRowsFloat16(all, chooses);
    case RowType::kBFloat16: break;
  }
  return BatchScanRowsBFloat16(all, chooses);
}

cudaError_t PrepareBatchScanRows() {
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const int variant_bits : {0, 1, 2, 3}) {
      const BatchScanRowsVariant variant =
          ScanRowsVariant(row, (variant_bits & 1) != 0, (variant_bits & 2) != 0);
      const cudaError_t error =
          cudaFuncSetAttribute(reinterpret_cast<const void*>(variant.kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, variant.shared_bytes);
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchBatchScanRows(RowType row, const BatchArgs& args, const BatchStage& stage,
                                const BatchDevice& device, cudaStream_t stream) {
  int query_tiles = (args.queries + kRowBatchQueries - 1) / kRowBatchQueries;
  const int lanes = std::max(device.sm_count / query_tiles, 1);
  const BatchScanRowsVariant variant =
      ScanRowsVariant(row, stage.done_step == 0, args.absent != nullptr);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(lanes * query_tiles));
  config.blockDim = dim3(kRowBatchThreads);
  config.dynamicSmemBytes = static_cast<size_t>(variant.shared_bytes);
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy, &query_tiles};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(variant.kernel), parameters);
}

}  // namespace

bool BuildHasWgmma() { return NEARFIELD_WGMMA != 0; }

int BatchQueriesAtOnce(const BatchDevice& device, int queries, int32_t code_stride) {
#if NEARFIELD_WGMMA
  if (device.wgmma) return BatchQueriesAtOnceWgmma(queries, code_stride);
#endif
  static_cast<void>(code_stride);
  return BatchQueriesAtOnceMma(device, queries);
}

cudaError_t PrepareBatch(const BatchDevice& device, BatchDimensions* dimensions) {
  *dimensions = {};
  cudaError_t error = PrepareBatchEncode(device, dimensions);
  if (error == cudaSuccess) error = PrepareBatchRefine(device, dimensions);
  if (error == cudaSuccess) error = PrepareBatchScanRows();
  if (error != cudaSuccess) return error;
#if NEARFIELD_WGMMA
  if (device.wgmma) return PrepareBatchScanWgmma();
#endif
  return PrepareBatchScanMma(device);
}

cudaError_t LaunchBatchScan(RowType row, const BatchArgs& args, const BatchStage& stage,
                            const BatchDevice& device, cudaStream_t stream) {
  if (stage.tiles == 0) return cudaSuccess;
  if (args.source == BatchSource::kRows) {
    return LaunchBatchScanRows(row, args, stage, device, stream);
  }
#if NEARFIELD_WGMMA
  if (device.wgmma) return LaunchBatchScanWgmma(args, stage, device.sm_count, stream);
#endif
  return LaunchBatchScanMma(args, stage, device, stream);
}

}  // namespace nearfield::gpu

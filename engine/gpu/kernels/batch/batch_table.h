// Kernels of a batch that are compiled in separate files.
#pragma once

#include "engine/gpu/kernels/batch/batch.h"

namespace nearfield::gpu {

// many: kRefineMany threads per block instead of kRefineFew.
using BatchRefinePointer = void (*)(BatchArgs, BatchStage);
BatchRefinePointer BatchRefineFloat32(bool many);
BatchRefinePointer BatchRefineFloat16(bool many);
BatchRefinePointer BatchRefineBFloat16(bool many);

cudaError_t PrepareBatchEncode();
cudaError_t PrepareBatchScan();

// The scan of every stage after the first, for blocks that hold their queries in registers.
bool BatchScanRsServes(int queries, int32_t code_stride);
cudaError_t PrepareBatchScanRs();
cudaError_t LaunchBatchScanRs(const BatchArgs& args, const BatchStage& stage, int sm_count,
                              cudaStream_t stream);

}  // namespace nearfield::gpu

// Kernels of a batch that are compiled in separate files.
#pragma once

#include "engine/gpu/kernels/batch/batch.h"

namespace nearfield::gpu {

// many: kRefineMany threads per block instead of kRefineFew.
using BatchRefinePointer = void (*)(BatchArgs, BatchStage);
BatchRefinePointer BatchRefineFloat32(bool many);
BatchRefinePointer BatchRefineFloat16(bool many);
BatchRefinePointer BatchRefineBFloat16(bool many);

cudaError_t PrepareBatchEncode(int32_t dimension_max);
cudaError_t PrepareBatchRefine(int32_t dimension_max);

// The scan for every supported card, with mma.
int BatchQueriesAtOnceMma(const BatchDevice& device, int queries);
cudaError_t PrepareBatchScanMma(const BatchDevice& device);
cudaError_t LaunchBatchScanMma(const BatchArgs& args, const BatchStage& stage,
                               const BatchDevice& device, cudaStream_t stream);

// The scan for compute capability 9.0, with wgmma.
int BatchQueriesAtOnceWgmma(int queries, int32_t code_stride);
cudaError_t PrepareBatchScanWgmma();
cudaError_t LaunchBatchScanWgmma(const BatchArgs& args, const BatchStage& stage, int sm_count,
                                 cudaStream_t stream);

// Its kernel for every stage after the first, for blocks that hold their queries in registers.
bool BatchScanRsServes(int queries, int32_t code_stride);
cudaError_t PrepareBatchScanRs();
cudaError_t LaunchBatchScanRs(const BatchArgs& args, const BatchStage& stage, int sm_count,
                              cudaStream_t stream);

}  // namespace nearfield::gpu

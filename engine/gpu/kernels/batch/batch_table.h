// Kernels of a batch that are compiled in separate files.
#pragma once

#include "engine/gpu/kernels/batch/batch.h"

namespace nearfield::gpu {

enum class RefineVariant : uint8_t {
  kMany,     // kRefineMany threads per block, for few queries
  kFewKeys,  // kRefineFewest threads per block, for k up to kBatchFewKMax
  kFew,      // kRefineFew threads per block
  kSmall,    // the same, with a slower sort, for blocks with less shared memory
  kLargeK,   // for k above kBatchUsualKMax
};
using BatchRefinePointer = void (*)(BatchArgs, BatchStage);
// terms: for queries with row terms.
BatchRefinePointer BatchRefineFloat32(RefineVariant variant, bool terms);
BatchRefinePointer BatchRefineFloat16(RefineVariant variant, bool terms);
BatchRefinePointer BatchRefineBFloat16(RefineVariant variant, bool terms);

// Returns the largest multiple of kSliceBytes up to kBatchDimMax for which a block has the shared
// memory, bytes(dimension); 0 if there is none.
template <typename Bytes>
int32_t LargestDimension(const BatchDevice& device, const Bytes& bytes) {
  int32_t dimension = kBatchDimMax;
  while (dimension > 0 && bytes(dimension) > device.shared_bytes_per_block_max) {
    dimension -= kSliceBytes;
  }
  return dimension;
}

// Load the kernels. Lower the dimensions to the largest that they serve on the device.
cudaError_t PrepareBatchEncode(const BatchDevice& device, BatchDimensions* dimensions);
cudaError_t PrepareBatchRefine(const BatchDevice& device, BatchDimensions* dimensions);

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

// The scan of exact rows, for every supported card.
inline constexpr int kRowBatchThreads = 2 * kRowBatchQueries;
struct BatchScanRowsVariant {
  void (*kernel)(BatchArgs, BatchStage, int) = nullptr;
  int shared_bytes = 0;  // dynamic, of a block
};
// all: for the first stage. chooses: for queries that see different rows.
BatchScanRowsVariant BatchScanRowsFloat32(bool all, bool chooses);
BatchScanRowsVariant BatchScanRowsFloat16(bool all, bool chooses);
BatchScanRowsVariant BatchScanRowsBFloat16(bool all, bool chooses);

// The wgmma scan's kernel for every stage after the first, for blocks that hold their queries in
// registers.
bool BatchScanRsServes(int queries, int32_t code_stride);
cudaError_t PrepareBatchScanRs();
cudaError_t LaunchBatchScanRs(const BatchArgs& args, const BatchStage& stage, int sm_count,
                              cudaStream_t stream);

}  // namespace nearfield::gpu

// The scan of bf16 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsBFloat16(bool all) { return BatchScanRowsOf<BFloat16Row>(all); }

}  // namespace nearfield::gpu

// The scan of fp16 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsFloat16(bool all) { return BatchScanRowsOf<Float16Row>(all); }

}  // namespace nearfield::gpu

// The scan of fp32 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsFloat32(bool all) { return BatchScanRowsOf<Float32Row>(all); }

}  // namespace nearfield::gpu

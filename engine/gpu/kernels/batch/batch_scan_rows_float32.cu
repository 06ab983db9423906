// The scan of fp32 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsFloat32(bool all, bool chooses) {
  return chooses ? BatchScanRowsOf<Float32Row, true>(all) : BatchScanRowsOf<Float32Row, false>(all);
}

}  // namespace nearfield::gpu

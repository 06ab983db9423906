// The scan of fp16 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsFloat16(bool all, bool chooses) {
  return chooses ? BatchScanRowsOf<Float16Row, true>(all) : BatchScanRowsOf<Float16Row, false>(all);
}

}  // namespace nearfield::gpu

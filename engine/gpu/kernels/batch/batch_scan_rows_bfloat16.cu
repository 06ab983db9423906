// The scan of bf16 rows for a batch.
#include "engine/gpu/kernels/batch/batch_scan_rows.cuh"

namespace nearfield::gpu {

BatchScanRowsVariant BatchScanRowsBFloat16(bool all, bool chooses) {
  return chooses ? BatchScanRowsOf<BFloat16Row, true>(all)
                 : BatchScanRowsOf<BFloat16Row, false>(all);
}

}  // namespace nearfield::gpu

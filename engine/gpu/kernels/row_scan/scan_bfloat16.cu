// The scan kernels of BFloat16 rows.
#include "engine/gpu/kernels/row_scan/scan_kernel.cuh"

namespace nearfield::gpu {

ScanTable ScanTableBFloat16(bool l2) {
  return l2 ? MakeScanTable<BFloat16Row, true>() : MakeScanTable<BFloat16Row, false>();
}

}  // namespace nearfield::gpu

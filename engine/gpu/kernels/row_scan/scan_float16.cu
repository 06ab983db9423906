// The scan kernels of Float16 rows.
#include "engine/gpu/kernels/row_scan/scan_kernel.cuh"

namespace nearfield::gpu {

ScanTable ScanTableFloat16(bool l2) {
  return l2 ? MakeScanTable<Float16Row, true>() : MakeScanTable<Float16Row, false>();
}

}  // namespace nearfield::gpu

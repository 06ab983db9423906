// The scan kernels of Float32 rows.
#include "engine/gpu/kernels/row_scan/scan_kernel.cuh"

namespace nearfield::gpu {

ScanTable ScanTableFloat32(bool l2) {
  return l2 ? MakeScanTable<Float32Row, true>() : MakeScanTable<Float32Row, false>();
}

}  // namespace nearfield::gpu

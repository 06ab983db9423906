// The scan kernels of BFloat16 rows.
#include "engine/gpu/kernels/row_scan/scan_kernel.cuh"
#include "engine/gpu/kernels/row_scan/scan_tile_kernel.cuh"

namespace nearfield::gpu {

ScanTable ScanTableBFloat16(bool l2) {
  return l2 ? MakeScanTable<BFloat16Row, true>() : MakeScanTable<BFloat16Row, false>();
}

ScanTileTable ScanTileTableBFloat16(bool l2) {
  return l2 ? MakeScanTileTable<BFloat16Row, true>() : MakeScanTileTable<BFloat16Row, false>();
}

}  // namespace nearfield::gpu

// Instantiations of the scan kernel: for each row type a table for products and one for squared
// differences (L2), with one entry for each policy; and the same for the kernel of many queries,
// with one entry for each tile.
#pragma once

#include <array>

#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

using ScanKernelPointer = void (*)(ScanArgs);
using ScanTable = std::array<ScanKernelPointer, kScanPolicies.size()>;

using ScanTileTable = std::array<ScanKernelPointer, kScanTiles.size()>;

ScanTable ScanTableFloat32(bool l2);
ScanTable ScanTableFloat16(bool l2);
ScanTable ScanTableBFloat16(bool l2);
ScanTileTable ScanTileTableFloat32(bool l2);
ScanTileTable ScanTileTableFloat16(bool l2);
ScanTileTable ScanTileTableBFloat16(bool l2);

}  // namespace nearfield::gpu

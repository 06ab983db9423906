// Instantiations of the scan kernel: for each row type a table for products and one for squared
// differences (L2), with one entry for each policy.
#pragma once

#include <array>

#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

using ScanKernelPointer = void (*)(ScanArgs);
using ScanTable = std::array<ScanKernelPointer, kScanPolicies.size()>;

ScanTable ScanTableFloat32(bool l2);
ScanTable ScanTableFloat16(bool l2);
ScanTable ScanTableBFloat16(bool l2);

}  // namespace nearfield::gpu

// Instantiations of the scan kernels: for each row type a table for products and one for squared
// differences (L2), with one entry for each policy and one for tiles.
#pragma once

#include <array>

#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

using ScanKernelPointer = void (*)(ScanArgs);
struct ScanTable {
  std::array<ScanKernelPointer, kScanPolicies.size()> policies = {};
  ScanKernelPointer tile = nullptr;  // and then:
  ScanKernelPointer left = nullptr;
};

ScanTable ScanTableFloat32(bool l2);
ScanTable ScanTableFloat16(bool l2);
ScanTable ScanTableBFloat16(bool l2);

}  // namespace nearfield::gpu

#include "engine/gpu/kernels/row_scan/scan.h"

#include <cstddef>

#include "engine/gpu/kernels/row_scan/scan_table.h"

namespace nearfield::gpu {
namespace {

ScanTable TableOf(RowType row, bool l2) {
  switch (row) {
    case RowType::kFloat32: return ScanTableFloat32(l2);
    case RowType::kFloat16: return ScanTableFloat16(l2);
    case RowType::kBFloat16: return ScanTableBFloat16(l2);
  }
  return ScanTable{};
}

}  // namespace

cudaError_t PrepareScan(int shared_bytes_max) {
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const bool l2 : {false, true}) {
      for (const ScanKernelPointer kernel : TableOf(row, l2)) {
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes_max);
        if (error != cudaSuccess) return error;
      }
    }
  }
  return cudaSuccess;
}

cudaError_t LaunchScan(const ScanLaunch& launch, const ScanArgs& args, cudaStream_t stream) {
  const ScanTable table = TableOf(launch.row, args.metric == Metric::kL2);
  for (std::size_t policy = 0; policy < kScanPolicies.size(); ++policy) {
    if (kScanPolicies[policy].queries != launch.queries_per_warp) continue;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3(static_cast<unsigned>(launch.blocks_x), static_cast<unsigned>(launch.blocks_y));
    config.blockDim = dim3(kScanThreads);
    config.dynamicSmemBytes =
        static_cast<std::size_t>(ScanSharedBytes(args.rows.shape.padded, launch.queries_per_warp));
    config.stream = stream;
    ScanArgs copy = args;
    void* parameters[] = {&copy};
    return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(table[policy]), parameters);
  }
  return cudaErrorInvalidValue;
}

}  // namespace nearfield::gpu

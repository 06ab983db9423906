#include "engine/gpu/kernels/row_scan/scan.h"

#include <algorithm>
#include <cstddef>
#include <vector>

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

constexpr unsigned kLeftBlocks = 264;  // two per SM of an H100 or H200

cudaError_t Launch(ScanKernelPointer kernel, cudaLaunchConfig_t config, const ScanArgs& args,
                   cudaStream_t stream) {
  config.stream = stream;
  ScanArgs copy = args;
  void* parameters[] = {&copy};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), parameters);
}

cudaError_t LaunchTiles(const ScanTable& table, const ScanArgs& args, cudaStream_t stream) {
  const auto tiles_of = [](int64_t count, int64_t side) { return (count + side - 1) / side; };
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(tiles_of(args.row_end - args.row_begin, kScanTileRows) *
                                 tiles_of(args.queries_count, kScanTileQueries)));
  config.blockDim = dim3(kScanTileThreads);
  config.dynamicSmemBytes = kScanTileSharedBytes;
  const cudaError_t error = Launch(table.tile, config, args, stream);
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t of_left = {};
  of_left.gridDim = dim3(kLeftBlocks);
  of_left.blockDim = dim3(kScanThreads);
  return Launch(table.left, of_left, args, stream);
}

}  // namespace

cudaError_t PrepareScan(int shared_bytes_max) {
  for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
    for (const bool l2 : {false, true}) {
      const ScanTable table = TableOf(row, l2);
      std::vector<ScanKernelPointer> kernels(table.policies.begin(), table.policies.end());
      if (shared_bytes_max >= kScanTileSharedBytes) kernels.push_back(table.tile);
      for (const ScanKernelPointer kernel : kernels) {
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
  if (launch.queries_per_scan == kScanTileQueries) return LaunchTiles(table, args, stream);
  const auto* const policy = std::find_if(
      kScanPolicies.begin(), kScanPolicies.end(),
      [&](const ScanPolicy& known) { return known.queries == launch.queries_per_scan; });
  if (policy == kScanPolicies.end()) return cudaErrorInvalidValue;
  cudaLaunchConfig_t config = {};
  config.gridDim =
      dim3(static_cast<unsigned>(launch.blocks_x), static_cast<unsigned>(launch.blocks_y));
  config.blockDim = dim3(kScanThreads);
  config.dynamicSmemBytes =
      static_cast<std::size_t>(ScanSharedBytes(args.rows.shape.padded, launch.queries_per_scan));
  return Launch(table.policies[static_cast<std::size_t>(policy - kScanPolicies.begin())], config,
                args, stream);
}

}  // namespace nearfield::gpu

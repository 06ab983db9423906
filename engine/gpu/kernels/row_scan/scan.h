// Row scan: scores every row of a part of a generation for a tile of queries, and writes order
// keys. Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/row_scan/scan_policy.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

struct ScanArgs {
  RowsView rows;
  TombstoneView tombstones;
  // If not empty, only these slots are scanned, and rows are positions in the list.
  SlotList listed;
  Metric metric = Metric::kDot;
  uint32_t row_begin = 0;  // a multiple of kScanRows
  uint32_t row_end = 0;
  int32_t queries_count = 0;
  const float* queries = nullptr;         // device: [queries_count, dim]
  const double* query_squared = nullptr;  // device: [queries_count] S(q,q); read for cosine only
  uint64_t* keys = nullptr;  // device: keys[q * keys_pitch + r - row_begin] is row r of query q
  int64_t keys_pitch = 0;
};

struct ScanLaunch {
  RowType row = RowType::kFloat32;
  int queries_per_warp = 1;  // one of kScanPolicies
  int blocks_x = 1;          // blocks that share the rows
  int blocks_y = 1;          // sub-tiles of queries_per_warp queries
};

// Returns the bytes of shared memory of one block.
constexpr int64_t ScanSharedBytes(int32_t padded_dim, int queries_per_warp) {
  return int64_t{8} * padded_dim * queries_per_warp;
}

// Loads the kernels and lets them use `shared_bytes_max` of shared memory. Call once, before the
// first launch.
cudaError_t PrepareScan(int shared_bytes_max);

// Enqueues the scan. Asynchronous. Errors: cudaErrorInvalidValue (no policy has
// `queries_per_warp`).
cudaError_t LaunchScan(const ScanLaunch& launch, const ScanArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

// Row scan: scores every row of a part of a generation for a tile of queries, and writes order
// keys. Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/row_scan/scan_policy.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

// Pairs of queries and rows whose scores are not certain after a scan of tiles. In device memory;
// LaunchLayQueries empties it, and so does each scan at its end.
inline constexpr uint32_t kScanLeftMax = 256 * 1024;
struct ScanLeft {
  uint32_t count;        // requested; may exceed kScanLeftMax
  uint32_t blocks_done;  // of ScanLeftKernel
  uint2 pairs[kScanLeftMax];

#ifdef __CUDACC__
  __device__ void Add(uint32_t query, uint32_t row) {
    if (*static_cast<volatile uint32_t*>(&count) > kScanLeftMax) return;
    const uint32_t at = atomicAdd(&count, 1u);
    if (at < kScanLeftMax) pairs[at] = {query, row};
  }
#endif
};

// Queries in fp64, as the scan of tiles reads them: for each tile of 64 queries and 32 elements of
// a row, [kLaidGroups][64 queries][kLaidPairs] pairs of elements. The pairs of a query are permuted
// (LaidAt), so that the same pair of two neighbors falls into different banks. Zero where there is
// no query or dimension.
inline constexpr int kLaidGroups = 2;
inline constexpr int kLaidPairs = 8;
NEARFIELD_HOST_DEVICE constexpr int LaidAt(int vector, int group, int pair) {
  return pair ^ (vector % 2 * 4) ^ group;
}
struct LaidQueries {
  double2* queries = nullptr;    // device
  double* magnitudes = nullptr;  // device: [queries_count] |q|; for L2, |q|^2
  ScanLeft* left = nullptr;      // device
  uint32_t* overflow = nullptr;  // mapped; set to 1 if `left` had no room, so that keys are missing
};

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
  LaidQueries laid;                       // for kScanTileQueries per scan
  const double* query_squared = nullptr;  // device: [queries_count] S(q,q); read for cosine only
  uint64_t* keys = nullptr;  // device: keys[q * keys_pitch + r - row_begin] is row r of query q
  int64_t keys_pitch = 0;

  // Returns the slot of a row of the scan.
  NEARFIELD_HOST_DEVICE uint32_t SlotOf(uint32_t row) const {
    return listed.empty() ? row : listed.at(row);
  }
};

struct ScanLaunch {
  RowType row = RowType::kFloat32;
  int queries_per_scan = 1;  // one of kScanPolicies, or kScanTileQueries
  int blocks_x = 1;          // blocks that share the rows
  int blocks_y = 1;          // sub-tiles of queries_per_scan queries
};

// Returns the bytes of shared memory of one block.
constexpr int64_t ScanSharedBytes(int32_t padded_dim, int queries_per_scan) {
  return int64_t{8} * padded_dim * queries_per_scan;
}

// Loads the kernels and lets them use `shared_bytes_max` of shared memory. Call once, before the
// first launch.
cudaError_t PrepareScan(int shared_bytes_max);

// Enqueues the scan. Asynchronous. Errors: cudaErrorInvalidValue (no policy has
// `queries_per_scan`).
cudaError_t LaunchScan(const ScanLaunch& launch, const ScanArgs& args, cudaStream_t stream);

// Enqueues what the scans of tiles need of queries, device: [count, dim].
struct LayQueriesArgs {
  RowShape shape;
  Metric metric = Metric::kDot;
  const float* queries = nullptr;
  int32_t count = 0;
  LaidQueries to;
};
cudaError_t LaunchLayQueries(const LayQueriesArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

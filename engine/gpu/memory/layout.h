// Converts row-major rows to the interleaved layout of the slabs and back. Host side. All launches
// are asynchronous.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

// Loads the kernels. Call once, before the first launch.
cudaError_t PrepareLayout();

// Stores `count` row-major rows (device memory) as rows [first, first + count) and computes their
// norms S(x,x).
cudaError_t LaunchStoreRows(RowType row, const RowsView& rows, const void* source, uint32_t first,
                            uint32_t count, cudaStream_t stream);

// Copies rows `slots[0, count)` of `from` (rows and norms) to rows [first, first + count) of `to`,
// which has the same shape.
struct CopyRowsArgs {
  RowsView from;
  RowsView to;
  const uint32_t* slots = nullptr;  // device
  uint32_t first = 0;
  uint32_t count = 0;
};
cudaError_t LaunchCopyRows(const CopyRowsArgs& args, cudaStream_t stream);

// Copies rows back to row-major order, bit for bit.
struct LoadRowsArgs {
  RowsView rows;
  const uint32_t* slots = nullptr;  // device; null: rows [first, first + count)
  uint32_t first = 0;
  uint32_t count = 0;
  void* target = nullptr;  // device, [count, dim]
};
cudaError_t LaunchLoadRows(RowType row, const LoadRowsArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

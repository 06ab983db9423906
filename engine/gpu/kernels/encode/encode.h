// Encodes rows on the device as they arrive, host side. All launches are asynchronous.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/bound/rotation_shape.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

// Loads the kernels. Lowers *dim_max to the largest dimension for which `shared_bytes_max`, the
// maximum of a block, is enough, and allows the kernels what that needs. Call once, before the
// first launch.
cudaError_t PrepareEncode(int64_t shared_bytes_max, int32_t* dim_max);

struct EncodeRowsArgs {
  CodesView codes;
  bound::RotationShape rotation;
  Metric metric = Metric::kDot;
  const void* source = nullptr;  // device: row-major [count, dimension] in the row type
  uint32_t first = 0;            // the codes of row i go to row first + i
  uint32_t count = 0;
};
cudaError_t LaunchEncodeRows(RowType row, const EncodeRowsArgs& args, cudaStream_t stream);

// Copies codes and bounds of rows slots[0, count) of `from` to rows [first, first + count) of `to`.
struct CopyCodesArgs {
  CodesView from;
  CodesView to;
  const uint32_t* slots = nullptr;  // device
  uint32_t first = 0;
  uint32_t count = 0;
};
cudaError_t LaunchCopyCodes(const CopyCodesArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

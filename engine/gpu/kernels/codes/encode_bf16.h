// bf16 copies of rows, made on the device as they arrive. Host side: encode.h calls it.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CODES_ENCODE_BF16_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_CODES_ENCODE_BF16_H_

#include <cuda_runtime_api.h>

#include "engine/gpu/kernels/codes/encode.h"
#include "engine/gpu/kernels/scan/scan.h"

namespace nearfield::gpu {

// Loads the kernels.
cudaError_t PrepareEncodeBf16();

// args.count > 0.
cudaError_t LaunchEncodeBf16Rows(ScanRow row, const EncodeRowsArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CODES_ENCODE_BF16_H_

// Factory of the GPU backend, which holds exact rows in VRAM and scores and selects them there.
// This header includes no CUDA header. A build without CUDA links a stub that returns an error.
#ifndef NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_
#define NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/corpus/backend.h"
#include "engine/corpus/scan_code.h"

namespace nearfield::gpu {

struct GpuOptions {
  int32_t device = 0;  // CUDA ordinal
  // For rows, ranks and bitmaps; 0: 85% of the memory that is free without workspace and reserve.
  int64_t memory_bytes = 0;
  // Page-locked host memory for the rows of collections that keep them on the host.
  int64_t host_rows_bytes = 0;
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  // Encodes a query on the host.
  corpus::QueryEncoder encode_query = corpus::EncodeQuery;
};

// Returns OK if a usable GPU is present.
// Errors: FailedPrecondition with the reason ("built without CUDA", "no NVIDIA driver found",
// "device 3 asked for, 1 present", "compute capability 7.5, this build is for 9.0").
absl::Status ProbeGpu(int32_t device);

// Creates the GPU backend. Takes all device memory now and seals it: no allocation after this.
absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeGpuTopkEngine(const GpuOptions& options);

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_GPU_TOPK_ENGINE_H_

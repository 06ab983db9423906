// The CPU backend: exact rows in host memory, scanned with SIMD on all cores.
#ifndef NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_
#define NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/corpus/backend.h"

namespace nearfield::cpu {

struct CpuOptions {
  int64_t memory_bytes = 0;  // budget for rows; > 0
  int32_t threads = 0;       // of the scan; 0: all cores
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
};

absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeCpuTopkEngine(const CpuOptions& options);

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_

// The CPU backend: exact rows in host memory, and codes of them, scanned with SIMD on all cores.
#ifndef NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_
#define NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/corpus/backend.h"
#include "engine/corpus/scan_code.h"

namespace nearfield::cpu {

struct CpuOptions {
  int64_t memory_bytes = 0;  // budget for rows; > 0
  int32_t threads = 0;       // of the scan; 0: all cores
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  // Instruction set of the scan, one of CpuInstructionSets(); empty: the best this CPU has. All
  // give the same bits.
  std::string instruction_set;
};

// What CpuOptions::instruction_set may name on this CPU, the fastest first: "AVX3_VNNI", "AVX3",
// "AVX2", "portable".
std::vector<std::string> CpuInstructionSets();

// The budget counts rows padded to 32 elements, plus 12 bytes a row; where codes are scanned, codes
// padded to 64 bytes, plus 16 bytes a row; plus tombstones.
// Errors: InvalidArgument (an option out of range: names it, its value and the limit).
absl::StatusOr<std::unique_ptr<corpus::Backend>> MakeCpuTopkEngine(const CpuOptions& options);

// corpus::EncodeQuery with the best instructions of this CPU.
corpus::QueryEncoder MakeQueryEncoder();

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_CPU_TOPK_ENGINE_H_

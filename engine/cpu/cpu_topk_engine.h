// Factory of the CPU backend, which holds rows and codes in host memory and scans them with SIMD on
// all cores.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"

namespace nearfield::cpu {

struct CpuOptions {
  int64_t memory_bytes = 0;  // budget for rows, in bytes; > 0
  int32_t threads = 0;       // threads of a scan; 0: all cores
  int32_t k_max = kKMax + 1;
  int32_t batch_max = 1024;
  // Instruction set of the scan, one of CpuInstructionSets(); empty: the fastest that this CPU
  // supports. All give the same bits.
  std::string instruction_set;
};

// Returns the instruction sets that this CPU supports, fastest first: "AVX3_AMX",
// "AVX3_VNNI", "AVX3", "AVX2_VNNI", "AVX2", "portable".
std::vector<std::string> CpuInstructionSets();

// Creates the CPU backend. Its budget counts rows padded to 32 elements plus 12 bytes per row; for
// code scans also codes padded to 64 bytes plus 16 bytes per row; and tombstones.
// Errors: InvalidArgument (an option is out of range: names it, its value and the limit).
absl::StatusOr<std::unique_ptr<backend::Backend>> MakeCpuTopkEngine(const CpuOptions& options);

}  // namespace nearfield::cpu

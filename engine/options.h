// Validation and defaults of EngineOptions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// Errors: InvalidArgument (names the option, its value and the limit).
absl::Status CheckOptions(const EngineOptions& options);

// Checks that options.memory_bytes is at most the physical memory that this process may use,
// because the CPU backend allocates it there. Errors: as above.
absl::Status CheckCpuMemory(const EngineOptions& options);

// Returns options.memory_bytes, or half of the physical memory.
int64_t CpuMemoryBytes(const EngineOptions& options);

// Returns options.host_memory_bytes, or a quarter of the physical memory.
int64_t HostMemoryBytes(const EngineOptions& options);

}  // namespace nearfield

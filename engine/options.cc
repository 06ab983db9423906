#include "engine/options.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/physical_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield {
namespace {

constexpr int32_t kBatchMax = 65'536;
constexpr int32_t kThreadsMax = 4'096;
constexpr int32_t kDeviceMax = 1'023;
constexpr int64_t kOrdinalsMax = int64_t{1} << 32;  // ordinals are uint32

struct Range {
  int64_t min = 0;
  int64_t max = 0;
};

absl::Status CheckRange(const char* name, int64_t value, Range range) {
  if (value >= range.min && value <= range.max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " = ", value, " is out of range: ", range.min, " to ", range.max));
}

absl::Status CheckBytes(const char* name, int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " = ", value, " is out of range: 0 (the default) or more bytes"));
}

// Checks that the host has the memory that the options reserve.
absl::Status CheckFits(const char* name, int64_t value) {
  const int64_t physical = PhysicalMemoryBytes();
  if (value <= physical) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      name, " = ", value, " is out of range: this process may use ", physical, " bytes of memory"));
}

}  // namespace

absl::Status CheckOptions(const EngineOptions& options) {
  if (options.backend != BackendChoice::kAuto && options.backend != BackendChoice::kCpu &&
      options.backend != BackendChoice::kGpu) {
    return absl::InvalidArgumentError(absl::StrCat("backend = ", static_cast<int>(options.backend),
                                                   " is none: auto, cpu or gpu"));
  }
  ABSL_RETURN_IF_ERROR(CheckRange("device", options.device, {.min = 0, .max = kDeviceMax}));
  ABSL_RETURN_IF_ERROR(CheckBytes("memory_bytes", options.memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckBytes("host_memory_bytes", options.host_memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckFits("host_memory_bytes", options.host_memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckBytes("host_rows_bytes", options.host_rows_bytes));
  ABSL_RETURN_IF_ERROR(CheckRange("threads", options.threads, {.min = 0, .max = kThreadsMax}));
  ABSL_RETURN_IF_ERROR(CheckRange("k_max", options.k_max, {.min = 1, .max = kKMax}));
  ABSL_RETURN_IF_ERROR(
      CheckRange("ordinals_max", options.ordinals_max, {.min = 1, .max = kOrdinalsMax}));
  return CheckRange("batch_max", options.batch_max, {.min = 1, .max = kBatchMax});
}

absl::Status CheckCpuMemory(const EngineOptions& options) {
  return CheckFits("memory_bytes", options.memory_bytes);
}

int64_t CpuMemoryBytes(const EngineOptions& options) {
  return options.memory_bytes > 0 ? options.memory_bytes : PhysicalMemoryBytes() / 2;
}

int64_t HostMemoryBytes(const EngineOptions& options) {
  return options.host_memory_bytes > 0 ? options.host_memory_bytes : PhysicalMemoryBytes() / 4;
}

}  // namespace nearfield

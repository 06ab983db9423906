#include "engine/options.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/physical_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield {
namespace {

constexpr int32_t kBatchMax = 65'536;
constexpr int32_t kThreadsMax = 4'096;
constexpr int32_t kDeviceMax = 1'023;
constexpr int32_t kCapabilityMax = 999;
constexpr int64_t kOrdinalsMax = int64_t{1} << 32;  // ordinals are uint32

// 0 stands for the default.
absl::Status CheckBytes(const char* name, int64_t value) {
  return CheckRange(name, value, 0, std::numeric_limits<int64_t>::max());
}

// Checks that the host has the memory that the options reserve.
absl::Status CheckFits(const char* name, int64_t value) {
  const int64_t physical = PhysicalMemoryBytes();
  if (value <= physical) return absl::OkStatus();
  return MustBe(name, absl::StrCat(value),
                absl::StrCat("at most ", physical, ", the memory that this process may use"));
}

absl::Status CheckDevices(const std::vector<int32_t>& devices) {
  ABSL_RETURN_IF_ERROR(
      CheckRange("devices", static_cast<int64_t>(devices.size()), 0, int64_t{kDevicesMax}));
  if (devices == std::vector<int32_t>{kAllDevices}) return absl::OkStatus();
  for (size_t i = 0; i < devices.size(); ++i) {
    ABSL_RETURN_IF_ERROR(
        CheckRange(absl::StrCat("devices[", i, "]"), devices[i], 0, int64_t{kDeviceMax}));
    if (std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i), devices[i]) !=
        devices.begin() + static_cast<std::ptrdiff_t>(i)) {
      return absl::InvalidArgumentError(
          absl::StrCat("devices[", i, "] = ", devices[i], ", which is there before"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOptions(const EngineOptions& options) {
  ABSL_RETURN_IF_ERROR(CheckOneOf("backend", options.backend,
                                  {BackendChoice::kAuto, BackendChoice::kCpu, BackendChoice::kGpu},
                                  "auto, cpu or gpu"));
  ABSL_RETURN_IF_ERROR(CheckRange("device", options.device, 0, kDeviceMax));
  ABSL_RETURN_IF_ERROR(CheckDevices(options.devices));
  ABSL_RETURN_IF_ERROR(CheckRange("cpu_devices", options.cpu_devices, 1, kDevicesMax));
  ABSL_RETURN_IF_ERROR(CheckBytes("spread.one_device_bytes", options.spread.one_device_bytes));
  ABSL_RETURN_IF_ERROR(CheckRange("spread.stripe_rows", options.spread.stripe_rows, 1, kRowsMax));
  ABSL_RETURN_IF_ERROR(CheckBytes("memory_bytes", options.memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckBytes("host_memory_bytes", options.host_memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckFits("host_memory_bytes", options.host_memory_bytes));
  ABSL_RETURN_IF_ERROR(CheckBytes("host_rows_bytes", options.host_rows_bytes));
  ABSL_RETURN_IF_ERROR(CheckRange("threads", options.threads, 0, kThreadsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("k_max", options.k_max, 1, kKMax));
  ABSL_RETURN_IF_ERROR(
      CheckRange("gpu_capability_max", options.gpu_capability_max, 0, kCapabilityMax));
  ABSL_RETURN_IF_ERROR(CheckRange("ordinals_max", options.ordinals_max, 1, kOrdinalsMax));
  return CheckRange("batch_max", options.batch_max, 1, kBatchMax);
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

#include "server/telemetry/nvml.h"

#include <dlfcn.h>

#include <array>
#include <cstddef>

namespace nearfield::server {
namespace {

constexpr unsigned kTemperatureGpu = 0;
constexpr unsigned kEccCorrected = 0;
constexpr unsigned kEccUncorrected = 1;
constexpr unsigned kEccAggregate = 1;  // over the life of the device
constexpr uint64_t kEventXid = 8;
// Limits on the events of one reading and on the distinct numbers that are kept.
constexpr int kEventsMax = 64;
constexpr size_t kXidsMax = 64;
constexpr uint64_t kOtherXid = 0;
constexpr double kMilli = 1e-3;
constexpr double kPercent = 1e-2;

// The structures of NVML's interface.
struct Utilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};
struct Memory {
  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t used = 0;
};
struct Event {
  void* device = nullptr;
  uint64_t type = 0;
  uint64_t data = 0;
  unsigned gpu_instance = 0;
  unsigned compute_instance = 0;
};

// Calls a function of a library that returns 0 on success. Returns false if it fails or does not
// exist.
template <typename... Arguments>
bool CallIn(void* library, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  return function != nullptr && function(arguments...) == 0;
}

// Returns the place of the CUDA device on the bus, "00000000:3B:00.0"; empty if it is unknown. NVML
// counts devices in another order than CUDA, and knows nothing of CUDA_VISIBLE_DEVICES.
std::string BusIdOf(const std::string& driver, int ordinal) {
  void* const library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  std::array<char, 32> id = {};
  int device = 0;
  const bool found =
      CallIn(library, "cuInit", 0U) && CallIn(library, "cuDeviceGet", &device, ordinal) &&
      CallIn(library, "cuDeviceGetPCIBusId", id.data(), static_cast<int>(id.size()), device);
  // The library stays open: the engine uses it too.
  return found ? id.data() : "";
}

}  // namespace

template <typename... Arguments>
bool Nvml::Call(const char* name, Arguments... arguments) const {
  return CallIn(library_, name, arguments...);
}

std::unique_ptr<Nvml> Nvml::Open(const GpuMonitor::Options& options) {
  auto nvml = std::unique_ptr<Nvml>(new Nvml);
  nvml->library_ = dlopen(options.nvml.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (nvml->library_ == nullptr || !nvml->Call("nvmlInit_v2")) return nullptr;
  return nvml->OpenDevice(options) ? std::move(nvml) : nullptr;
}

bool Nvml::OpenDevice(const GpuMonitor::Options& options) {
  const std::string bus_id = BusIdOf(options.driver, options.device);
  const bool found =
      bus_id.empty()
          ? Call("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(options.device), &device_)
          : Call("nvmlDeviceGetHandleByPciBusId_v2", bus_id.c_str(), &device_);
  if (!found) return false;
  if (!Call("nvmlEventSetCreate", &events_) ||
      !Call("nvmlDeviceRegisterEvents", device_, kEventXid, events_)) {
    events_ = nullptr;
  }
  return true;
}

Nvml::~Nvml() {
  // A library that could not be opened has no functions to call.
  if (library_ == nullptr) return;
  if (events_ != nullptr) Call("nvmlEventSetFree", events_);
  Call("nvmlShutdown");
}

void Nvml::Read(GpuSample* sample) const {
  Utilization utilization;
  if (Call("nvmlDeviceGetUtilizationRates", device_, &utilization)) {
    sample->utilization = utilization.gpu * kPercent;
  }
  Memory memory;
  if (Call("nvmlDeviceGetMemoryInfo", device_, &memory)) {
    sample->memory_used_bytes = static_cast<double>(memory.used);
    sample->memory_bytes = static_cast<double>(memory.total);
  }
  unsigned value = 0;
  if (Call("nvmlDeviceGetPowerUsage", device_, &value)) sample->power_watts = value * kMilli;
  if (Call("nvmlDeviceGetEnforcedPowerLimit", device_, &value)) {
    sample->power_limit_watts = value * kMilli;
  }
  if (Call("nvmlDeviceGetTemperature", device_, kTemperatureGpu, &value)) {
    sample->temperature_celsius = value;
  }
  uint64_t errors = 0;
  if (Call("nvmlDeviceGetTotalEccErrors", device_, kEccCorrected, kEccAggregate, &errors)) {
    sample->ecc_corrected = static_cast<double>(errors);
  }
  if (Call("nvmlDeviceGetTotalEccErrors", device_, kEccUncorrected, kEccAggregate, &errors)) {
    sample->ecc_uncorrected = static_cast<double>(errors);
  }
  if (events_ == nullptr) return;
  Event event;
  for (int i = 0; i < kEventsMax && Call("nvmlEventSetWait_v2", events_, &event, 0U); ++i) {
    const bool is_kept = sample->xids.count(event.data) > 0 || sample->xids.size() < kXidsMax;
    ++sample->xids[is_kept ? event.data : kOtherXid];
  }
}

}  // namespace nearfield::server

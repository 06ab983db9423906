// Nvml: the few functions of NVIDIA's management library that the server calls, found at run time.
// Their signatures are those of NVML's stable interface, so no header of CUDA is needed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/telemetry/gpu_monitor.h"

namespace nearfield::server {

// Not thread-safe.
class Nvml {
 public:
  // Opens the library and the device. Returns null if either does not exist.
  static std::unique_ptr<Nvml> Open(const GpuMonitor::Options& options);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Reads all figures; adds the Xid events since the last call. May take as long as the driver.
  void Read(GpuSample* sample) const;

 private:
  Nvml() = default;
  bool OpenDevice(const GpuMonitor::Options& options);
  template <typename... Arguments>
  bool Call(const char* name, Arguments... arguments) const;

  void* library_ = nullptr;
  void* device_ = nullptr;
  void* events_ = nullptr;  // null: the device reports no Xid events
};

}  // namespace nearfield::server

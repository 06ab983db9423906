// GpuMonitor: samples utilisation, memory, power, ECC errors and Xid events of the GPU through
// NVIDIA's management library, NVML, which comes with the driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nearfield/engine/engine.h"

namespace nearfield::server {

// A figure that the device or its driver does not report is absent.
struct GpuSample {
  std::optional<std::chrono::duration<double>> age;  // absent: there is no sample yet
  std::optional<double> utilization;  // share of the last period in which a kernel ran, 0 .. 1
  std::optional<double> memory_used_bytes;
  std::optional<double> memory_bytes;
  std::optional<double> power_watts;
  std::optional<double> power_limit_watts;
  std::optional<double> temperature_celsius;
  std::optional<double> ecc_corrected;  // over the life of the device
  std::optional<double> ecc_uncorrected;
  std::map<uint64_t, int64_t> xids;  // events since the start, by their number; 0: other numbers
};

// Runs one thread, so that no scrape waits for a driver that does not respond. Thread-safe.
class GpuMonitor {
 public:
  struct Options {
    int device = 0;  // CUDA ordinal
    std::string nvml = "libnvidia-ml.so.1";
    std::string driver = "libcuda.so.1";  // finds the device's place on the bus
    std::chrono::milliseconds interval{2000};
  };
  // Returns null if there is no NVML or no such device.
  static std::unique_ptr<GpuMonitor> Start(const Options& options);
  // Returns the monitors of these devices; {kAllDevices} selects every GPU of the machine.
  static std::vector<std::unique_ptr<GpuMonitor>> StartAll(const std::vector<int32_t>& devices);
  // Waits for the thread; abandons it if the driver does not respond for a second.
  ~GpuMonitor();
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;

  int device() const { return device_; }
  GpuSample Latest() const;

 private:
  struct Shared;
  GpuMonitor(int device, std::shared_ptr<Shared> shared);

  const int device_;
  const std::shared_ptr<Shared> shared_;  // also of the thread
};

}  // namespace nearfield::server

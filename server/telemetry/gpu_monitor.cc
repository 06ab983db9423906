#include "server/telemetry/gpu_monitor.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/telemetry/nvml.h"

namespace nearfield::server {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kDriverWait{1};

}  // namespace

struct GpuMonitor::Shared {
  Shared(std::unique_ptr<Nvml> nvml_in, std::chrono::milliseconds interval_in)
      : interval(interval_in), nvml(std::move(nvml_in)) {}

  // The thread.
  void Loop() {
    GpuSample fresh;
    while (true) {
      std::map<uint64_t, int64_t> xids = std::move(fresh.xids);
      fresh = {.xids = std::move(xids)};
      nvml->Read(&fresh);
      MutexLock lock(mutex);
      sample = fresh;
      sampled_at = Steady::now();
      const auto next = *sampled_at + interval;
      while (!ending && wake.WaitUntil(lock, next)) {
      }
      if (ending) break;
    }
    nvml = nullptr;
    const MutexLock lock(mutex);
    ended = true;
    wake.NotifyAll();
  }

  const std::chrono::milliseconds interval;
  std::unique_ptr<Nvml> nvml;  // used only by the thread
  Mutex mutex;
  CondVar wake;
  GpuSample sample ABSL_GUARDED_BY(mutex);
  std::optional<Steady::time_point> sampled_at ABSL_GUARDED_BY(mutex);
  bool ending ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
};

std::unique_ptr<GpuMonitor> GpuMonitor::Start(const Options& options) {
  std::unique_ptr<Nvml> nvml = Nvml::Open(options);
  if (nvml == nullptr) return nullptr;
  return std::unique_ptr<GpuMonitor>(
      new GpuMonitor(options.device, std::make_shared<Shared>(std::move(nvml), options.interval)));
}

std::vector<std::unique_ptr<GpuMonitor>> GpuMonitor::StartAll(const std::vector<int32_t>& devices) {
  const bool all = devices == std::vector<int32_t>{kAllDevices};
  std::vector<std::unique_ptr<GpuMonitor>> monitors;
  for (int32_t i = 0; i < (all ? kDevicesMax : static_cast<int32_t>(devices.size())); ++i) {
    auto monitor = Start({.device = all ? i : devices[static_cast<size_t>(i)]});
    if (monitor != nullptr) monitors.push_back(std::move(monitor));
  }
  return monitors;
}

GpuMonitor::GpuMonitor(int device, std::shared_ptr<Shared> shared)
    : device_(device), shared_(std::move(shared)) {
  std::thread([held = shared_] { held->Loop(); }).detach();
}

GpuMonitor::~GpuMonitor() {
  const auto latest = Steady::now() + kDriverWait;
  MutexLock lock(shared_->mutex);
  shared_->ending = true;
  shared_->wake.NotifyAll();
  while (!shared_->ended && shared_->wake.WaitUntil(lock, latest)) {
  }
}

GpuSample GpuMonitor::Latest() const {
  const MutexLock lock(shared_->mutex);
  GpuSample sample = shared_->sample;
  if (shared_->sampled_at.has_value()) sample.age = Steady::now() - *shared_->sampled_at;
  return sample;
}

}  // namespace nearfield::server

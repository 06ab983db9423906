#include "server/ops_http/gpu_monitor.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "server/ops_http/nvml.h"

namespace nearfield::server {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndWait{1};

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
  const auto latest = Steady::now() + kEndWait;
  MutexLock lock(shared_->mutex);
  shared_->ending = true;
  shared_->wake.NotifyAll();
  while (!shared_->ended && shared_->wake.WaitUntil(lock, latest)) {
  }
}

void GpuMonitor::AddMetrics(const MetricLabels& labels, MetricSet* metrics) const {
  const MutexLock lock(shared_->mutex);
  if (!shared_->sampled_at.has_value()) return;
  AddGpuMetrics(shared_->sample, Steady::now() - *shared_->sampled_at, labels, metrics);
}

void AddGpuMetrics(const GpuSample& sample, std::chrono::duration<double> age,
                   const MetricLabels& labels, MetricSet* metrics) {
  const auto with = [&labels](std::string name, std::string value) {
    MetricLabels more = labels;
    more.emplace_back(std::move(name), std::move(value));
    return more;
  };
  const auto gauge = [&](const char* name, const char* help, const std::optional<double>& value) {
    if (value.has_value()) metrics->Gauge(name, help, *value, labels);
  };
  gauge("nearfield_gpu_sample_age_seconds",
        "Age of the figures of the GPU; it grows while the driver does not respond.", age.count());
  gauge("nearfield_gpu_utilization_ratio", "Share of time in which a kernel ran.",
        sample.utilization);
  gauge("nearfield_gpu_memory_used_bytes", "Memory in use, of all processes.",
        sample.memory_used_bytes);
  gauge("nearfield_gpu_memory_bytes", "Memory of the GPU.", sample.memory_bytes);
  gauge("nearfield_gpu_power_watts", "Power that the GPU draws.", sample.power_watts);
  gauge("nearfield_gpu_power_limit_watts", "Power limit in force.", sample.power_limit_watts);
  gauge("nearfield_gpu_temperature_celsius", "Temperature of the GPU.", sample.temperature_celsius);
  const auto ecc = [&](const char* type, const std::optional<double>& value) {
    if (!value.has_value()) return;
    metrics->Counter("nearfield_gpu_ecc_errors_total", "Memory errors over the life of the GPU.",
                     *value, with("type", type));
  };
  ecc("corrected", sample.ecc_corrected);
  ecc("uncorrected", sample.ecc_uncorrected);
  int64_t events = 0;
  for (const auto& [xid, count] : sample.xids) {
    events += count;
    metrics->Counter("nearfield_gpu_xid_total", "Xid events since the start, by their number.",
                     static_cast<double>(count), with("xid", std::to_string(xid)));
  }
  // Exists also without an event, so that the first one is an increase.
  metrics->Counter("nearfield_gpu_xid_events_total", "Xid events since the start.",
                   static_cast<double>(events), labels);
}

}  // namespace nearfield::server

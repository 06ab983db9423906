#include "server/ops_http/gpu_metrics.h"

#include <optional>
#include <string>
#include <utility>

namespace nearfield::server {

void AddGpuMetrics(const GpuSample& sample, const MetricLabels& labels, MetricSet* metrics) {
  if (!sample.age.has_value()) return;
  const auto with = [&labels](std::string name, std::string value) {
    MetricLabels more = labels;
    more.emplace_back(std::move(name), std::move(value));
    return more;
  };
  const auto gauge = [&](const char* name, const char* help, const std::optional<double>& value) {
    if (value.has_value()) metrics->Gauge(name, help, *value, labels);
  };
  gauge("nearfield_gpu_sample_age_seconds",
        "Age of the figures of the GPU; it grows while the driver does not respond.",
        sample.age->count());
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

// The metrics of a GPU.
#pragma once

#include "server/ops_http/metric_set.h"
#include "server/telemetry/gpu_monitor.h"

namespace nearfield::server {

// Adds the metrics of a sample, each with these labels; nothing if there is no sample yet.
void AddGpuMetrics(const GpuSample& sample, const MetricLabels& labels, MetricSet* metrics);

}  // namespace nearfield::server

// Tests of the text format of metrics and of the metrics of a GPU.
#include "server/ops_http/metric_set.h"

#include <cstdint>
#include <string>
#include <thread>

#include "server/ops_http/gpu_metrics.h"
#include "tests/server/fake_nvml.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

TEST(MetricSetTest, MetricsOfOneNameStandTogether) {
  MetricSet metrics;
  metrics.Gauge("a", "First.", 1, {{"x", "1"}});
  metrics.Counter("b_total", "Second.", 2);
  metrics.Gauge("a", "First.", 1.5, {{"x", "quote \" and\nline"}});
  EXPECT_EQ(metrics.Text(),
            "# HELP a First.\n# TYPE a gauge\na{x=\"1\"} 1\n"
            "a{x=\"quote \\\" and\\nline\"} 1.5\n"
            "# HELP b_total Second.\n# TYPE b_total counter\nb_total 2\n");
}

TEST(MetricSetTest, BucketsOfAHistogramAreCumulative) {
  static constexpr int64_t kBounds[] = {10, 100};
  Histogram histogram(kBounds);
  for (const int64_t value : {1, 10, 11, 100, 101, 5000}) histogram.Add(value);
  Histogram sum(kBounds);
  sum.Add(histogram);
  sum.Add(histogram);
  MetricSet metrics;
  metrics.AddHistogram("h", "Help.", sum, 1, {{"m", "n"}});
  EXPECT_EQ(metrics.Text(),
            "# HELP h Help.\n# TYPE h histogram\nh_count{m=\"n\"} 12\nh_sum{m=\"n\"} 10446\n"
            "h_bucket{m=\"n\",le=\"10\"} 4\nh_bucket{m=\"n\",le=\"100\"} 8\n"
            "h_bucket{m=\"n\",le=\"+Inf\"} 12\n");
}

TEST(GpuMonitorTest, WithoutTheLibraryThereIsNone) {
  EXPECT_EQ(GpuMonitor::Start({.nvml = "libnearfield-absent.so.1"}), nullptr);
}

TEST(GpuMonitorTest, WithoutTheDeviceThereIsNone) {
  EXPECT_EQ(GpuMonitor::Start({.device = kFakeNvmlDevices, .nvml = NEARFIELD_FAKE_NVML}), nullptr);
}

// Each figure has its own value, so no two can be confused.
TEST(GpuMonitorTest, EveryFigureIsTheDevices) {
  const auto monitor = GpuMonitor::Start({.nvml = NEARFIELD_FAKE_NVML});
  ASSERT_NE(monitor, nullptr);
  std::string text;
  while (text.empty()) {
    MetricSet metrics;
    AddGpuMetrics(monitor->Latest(), {}, &metrics);
    text = metrics.Text();
    std::this_thread::yield();
  }
  for (const char* const line :
       {"nearfield_gpu_utilization_ratio 0.37\n", "nearfield_gpu_memory_used_bytes 1024\n",
        "nearfield_gpu_memory_bytes 4096\n", "nearfield_gpu_power_watts 123.456\n",
        "nearfield_gpu_power_limit_watts 700\n", "nearfield_gpu_temperature_celsius 55\n",
        "nearfield_gpu_ecc_errors_total{type=\"corrected\"} 5\n",
        "nearfield_gpu_ecc_errors_total{type=\"uncorrected\"} 2\n",
        "nearfield_gpu_xid_total{xid=\"79\"} 1\n", "nearfield_gpu_xid_events_total 1\n",
        "nearfield_gpu_sample_age_seconds "}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(GpuMonitorTest, LabelsOfTheCallerStandBeforeItsOwn) {
  MetricSet metrics;
  AddGpuMetrics(
      {.age = std::chrono::seconds(1), .power_watts = 3, .ecc_corrected = 5, .xids = {{79, 1}}},
      {{"gpu", "2"}}, &metrics);
  for (const char* const line : {"nearfield_gpu_power_watts{gpu=\"2\"} 3\n",
                                 "nearfield_gpu_ecc_errors_total{gpu=\"2\",type=\"corrected\"} 5\n",
                                 "nearfield_gpu_xid_total{gpu=\"2\",xid=\"79\"} 1\n",
                                 "nearfield_gpu_xid_events_total{gpu=\"2\"} 1\n"}) {
    EXPECT_THAT(metrics.Text(), HasSubstr(line));
  }
}

}  // namespace
}  // namespace nearfield::server

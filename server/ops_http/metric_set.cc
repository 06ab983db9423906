#include "server/ops_http/metric_set.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

namespace nearfield::server {

struct MetricSet::Impl {
  // Returns a new metric of this name.
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help,
                                prometheus::MetricType type, const MetricLabels& labels) {
    const auto [place, is_new] = places.try_emplace(name, families.size());
    if (is_new) families.push_back({.name = name, .help = help, .type = type, .metric = {}});
    prometheus::ClientMetric& metric = families[place->second].metric.emplace_back();
    for (const auto& [label, value] : labels) metric.label.push_back({label, value});
    return metric;
  }

  std::vector<prometheus::MetricFamily> families;
  std::unordered_map<std::string, size_t> places;  // in families, by name
};

MetricSet::MetricSet() : impl_(std::make_unique<Impl>()) {}
MetricSet::~MetricSet() = default;

void MetricSet::Gauge(const std::string& name, const std::string& help, double value,
                      const MetricLabels& labels) {
  impl_->Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void MetricSet::Counter(const std::string& name, const std::string& help, double value,
                        const MetricLabels& labels) {
  impl_->Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void MetricSet::AddHistogram(const std::string& name, const std::string& help,
                             const Histogram& histogram, double scale, const MetricLabels& labels) {
  prometheus::ClientMetric::Histogram& out =
      impl_->Add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  out.sample_count = static_cast<uint64_t>(histogram.count());
  out.sample_sum = static_cast<double>(histogram.sum()) * scale;
  uint64_t count = 0;
  for (size_t i = 0; i < histogram.counts().size(); ++i) {
    count += static_cast<uint64_t>(histogram.counts()[i]);
    const double bound = i < histogram.bounds().size()
                             ? static_cast<double>(histogram.bounds()[i]) * scale
                             : std::numeric_limits<double>::infinity();
    out.bucket.push_back({.cumulative_count = count, .upper_bound = bound});
  }
}

std::string MetricSet::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->families);
}

}  // namespace nearfield::server

// MetricSet: metrics of one scrape, and their text format.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/telemetry/histogram.h"

namespace nearfield::server {

// Name and value of each label.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Metrics of one name stand together, in the order in which the names were first added.
class MetricSet {
 public:
  MetricSet();
  ~MetricSet();

  // `help` describes the name; only that of the first metric of a name is used. Requires: all
  // metrics of a name have one type and different labels.
  void Gauge(const std::string& name, const std::string& help, double value,
             const MetricLabels& labels = {});
  void Counter(const std::string& name, const std::string& help, double value,
               const MetricLabels& labels = {});
  // Bounds and sum are multiplied by `scale`: 1e-6 turns microseconds into seconds.
  void AddHistogram(const std::string& name, const std::string& help, const Histogram& histogram,
                    double scale, const MetricLabels& labels = {});

  // Returns the metrics in the Prometheus text format 0.0.4.
  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::server

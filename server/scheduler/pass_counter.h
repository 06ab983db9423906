// PassCounter: total cost of a server's device passes.
#pragma once

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/engine.h"
#include "server/telemetry/histogram.h"

namespace nearfield::server {

// Sums over the passes that succeeded. Each pass is added once, however many searches shared it.
struct PassCounts {
  // The queries of each pass, by the precision that most of them scanned.
  std::map<ScanPrecision, Histogram> queries;
  int64_t device_us = 0;
  int64_t candidates = 0;
  int64_t bytes_read = 0;
  ScanEscalations escalations;
};

// Thread-safe.
class PassCounter {
 public:
  void Record(const SearchResult& result);
  PassCounts counts() const;

 private:
  mutable Mutex mutex_;
  PassCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

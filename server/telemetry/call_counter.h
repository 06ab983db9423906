// CallCounter: counts the calls of a server by method and status, and sums their rows and times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

struct CallCount {
  int64_t calls = 0;
  int64_t rows = 0;  // sum of RequestRecord::rows
  int64_t total_us = 0;
};

// Ordered by method, then by name of the status.
using CallCounts = std::map<std::pair<std::string, std::string>, CallCount>;

// Thread-safe.
class CallCounter {
 public:
  void Record(const RequestRecord& record, const absl::Status& status);
  CallCounts counts() const;

 private:
  mutable Mutex mutex_;
  CallCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

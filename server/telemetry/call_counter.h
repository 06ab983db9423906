// CallCounter: counts the calls of a server by method and status, with their rows, times and
// refusals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "engine/base/mutex.h"
#include "server/telemetry/histogram.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

struct CallCount {
  int64_t rows = 0;                    // sum of RequestRecord::rows
  Histogram total_us{kTimeBucketsUs};  // one value for each call
};

// Ordered by method, then by name of the status.
using CallCounts = std::map<std::pair<std::string, std::string>, CallCount>;

// The times of the calls of one method that reached the engine. A stream has one value for all its
// searches.
struct EngineTimes {
  Histogram queue_us{kTimeBucketsUs};
  Histogram device_us{kTimeBucketsUs};
};

// Thread-safe.
class CallCounter {
 public:
  void Record(const RequestRecord& record, const absl::Status& status);
  CallCounts counts() const;
  // By method.
  std::map<std::string, EngineTimes> engine_times() const;
  // Returns the numbers of calls that ended with a refusal, by RefusalReason.
  std::map<std::string, int64_t> refusals() const;

 private:
  mutable Mutex mutex_;
  CallCounts counts_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, EngineTimes> engine_times_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> refusals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server

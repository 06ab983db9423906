#include "server/telemetry/call_counter.h"

namespace nearfield::server {

void CallCounter::Record(const RequestRecord& record, const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const MutexLock lock(mutex_);
  CallCount& count = counts_[{record.method, code}];
  ++count.calls;
  count.rows += record.rows;
  count.total_us += record.total_us;
}

CallCounts CallCounter::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace nearfield::server

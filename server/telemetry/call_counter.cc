#include "server/telemetry/call_counter.h"

#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {

void CallCounter::Record(const RequestRecord& record, const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string reason = RefusalReason(status);
  const MutexLock lock(mutex_);
  CallCount& count = counts_[{record.method, code}];
  count.rows += record.rows;
  count.total_us.Add(record.total_us);
  if (!reason.empty()) ++refusals_[reason];
  if (record.scan.empty()) return;  // no search of the call reached the engine
  EngineTimes& times = engine_times_[record.method];
  times.queue_us.Add(record.queue_us);
  times.device_us.Add(record.device_us);
}

CallCounts CallCounter::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

std::map<std::string, EngineTimes> CallCounter::engine_times() const {
  const MutexLock lock(mutex_);
  return engine_times_;
}

std::map<std::string, int64_t> CallCounter::refusals() const {
  const MutexLock lock(mutex_);
  return refusals_;
}

}  // namespace nearfield::server

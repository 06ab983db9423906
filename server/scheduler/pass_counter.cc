#include "server/scheduler/pass_counter.h"

namespace nearfield::server {

void PassCounter::Record(const SearchResult& result) {
  const SearchCost& cost = result.cost;
  const MutexLock lock(mutex_);
  const auto queries = counts_.queries.try_emplace(cost.precision, kBatchBuckets).first;
  queries->second.Add(static_cast<int64_t>(result.queries.size()));
  counts_.device_us += cost.device_us;
  counts_.candidates += cost.candidates;
  counts_.bytes_read += cost.bytes_read;
  counts_.escalations.tighter += cost.escalations.tighter;
  counts_.escalations.canonical += cost.escalations.canonical;
}

PassCounts PassCounter::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace nearfield::server

#include "server/audit/scrubber.h"

#include <algorithm>
#include <utility>

#include "server/audit/background.h"

namespace nearfield::server {

Scrubber::Scrubber(const ScrubberOptions& options, ScrubberBase base)
    : options_(options), base_(std::move(base)) {
  if (options_.interval.count() > 0) thread_ = std::thread([this] { Loop(); });
}

Scrubber::~Scrubber() {
  base_.pace->End();
  if (thread_.joinable()) thread_.join();
}

void Scrubber::Loop() {
  YieldToSearches();
  std::chrono::nanoseconds wait = options_.interval;
  while (base_.pace->Wait(wait)) {
    const TimePoint begin = base_.clock->Now();
    if (!Pass()) return;
    wait = std::max(std::chrono::nanoseconds(0), options_.interval - (base_.clock->Now() - begin));
  }
}

bool Scrubber::Pass() {
  const ScrubTools tools = {.bytes_per_second = options_.bytes_per_second,
                            .pace = base_.pace,
                            .alarm = base_.alarm,
                            .counts = &counts_};
  for (const NamedCollectionPtr& named : base_.collections()) {
    if (named->store == nullptr || named->dropped.load() || !named->load_status.ok()) continue;
    const absl::Status status = ScrubCollection(*named, tools);
    if (absl::IsCancelled(status)) return false;
    if (status.ok() || named->dropped.load()) continue;
    if (absl::IsDataLoss(status)) counts_.files_damaged += 1;
    base_.failed(named->name, status);
  }
  counts_.passes += 1;
  base_.report(counts_);
  return true;
}

}  // namespace nearfield::server

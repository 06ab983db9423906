#include "server/scheduler/fair_queue_accounts.h"

#include <algorithm>
#include <cmath>

#include "engine/base/check.h"

namespace nearfield::server {
namespace {

constexpr size_t kCallersMax = 1024;
// Name of the entry shared by callers without a name and callers beyond kCallersMax.
constexpr char kOthers[] = "";

constexpr double kHalfLifeUs = 250e3;
// Weight of the newest pass in the mean number of waiting callers.
constexpr double kMeanWeight = 0.25;

}  // namespace

FairQueueAccounts::Account* FairQueueAccounts::Find(const std::string& name) {
  const auto it = callers_.find(name);
  if (it != callers_.end()) return &it->second;
  if (callers_.size() >= kCallersMax) {
    std::erase_if(callers_, [this](const auto& each) { return IsIdle(each.second); });
    if (callers_.size() >= kCallersMax) return &callers_[kOthers];
  }
  return &callers_[name];
}

bool FairQueueAccounts::IsIdle(const Account& caller) const {
  bool idle = caller.requests == 0 && caller.running == 0;
  for (size_t i = 0; i < kPriorities; ++i) idle = idle && caller.finish[i] <= now_[i];
  return idle;
}

double FairQueueAccounts::StartOf(const Account& caller, SearchPriority priority) const {
  const size_t i = IndexOf(priority);
  return std::max(now_[i], caller.finish[i]);
}

void FairQueueAccounts::Book(Account* caller, SearchPriority priority, double start,
                             double cost_us) {
  const size_t i = IndexOf(priority);
  caller->finish[i] = start + cost_us;
  finish_max_[i] = std::max(finish_max_[i], caller->finish[i]);
}

void FairQueueAccounts::Serve(SearchPriority priority, double start) {
  double& now = now_[IndexOf(priority)];
  now = std::max(now, start);
}

void FairQueueAccounts::Decayed::Add(double value, TimePoint now) {
  value_ = At(now) + value;
  at_ = now;
}

double FairQueueAccounts::Decayed::At(TimePoint now) const {
  // All values of one pass are added at the same time.
  if (value_ == 0 || at_ == now) return value_;
  return value_ * std::exp2(-ExactMicrosBetween(at_, now) / kHalfLifeUs);
}

void FairQueueAccounts::AddWaiting(Account* caller, const Load& load) {
  if (caller->requests++ == 0) ++waiting_;
  caller->bytes += load.bytes;
  caller->cost_us[IndexOf(load.priority)] += load.cost_us;
}

void FairQueueAccounts::RemoveWaiting(Account* caller, const Load& load) {
  CHECK_GT(caller->requests, 0);
  CHECK_GE(caller->bytes, load.bytes);
  caller->bytes -= load.bytes;
  caller->cost_us[IndexOf(load.priority)] -= load.cost_us;
  if (--caller->requests > 0) return;
  --waiting_;
  CHECK_GE(waiting_, 0);
  CHECK_EQ(caller->bytes, 0);
  caller->cost_us = {};  // drops the rounding errors of the sums
}

void FairQueueAccounts::BeginPass() {
  waiting_mean_ += kMeanWeight * (static_cast<double>(waiting_) - waiting_mean_);
}

void FairQueueAccounts::AddServed(Account* caller, double us, TimePoint now) {
  caller->served_us.Add(us, now);
  served_us_.Add(us, now);
}

double FairQueueAccounts::BacklogUs(const Account& caller, SearchPriority priority,
                                    TimePoint now) const {
  if (caller.requests == 0) return 0;
  const double all_us = served_us_.At(now);
  const double had = all_us > 0 ? caller.served_us.At(now) / all_us : 0;
  const double equal = 1 / std::max(static_cast<double>(waiting_), waiting_mean_);
  double own_us = caller.cost_us[IndexOf(SearchPriority::kInteractive)];
  if (priority == SearchPriority::kBatch) own_us += caller.cost_us[IndexOf(priority)];
  return std::max(own_us, 0.0) / std::clamp(std::max(had, equal), 1e-3, 1.0);
}

void FairQueueAccounts::Forget() { now_ = finish_max_; }

}  // namespace nearfield::server

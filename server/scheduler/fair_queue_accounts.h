// FairQueueAccounts: one account for each caller; gives callers equal shares of the device's time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "server/scheduler/clock.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// Fair-queue accounts of the callers (start-time fair queueing).
// Each search gets a start and an end on the virtual clock of its priority. The start is the
// clock's time or the end of the caller's previous search, whichever is later. The end is the start
// plus the predicted device time. Searches are served in the order of their starts. If one caller
// queues a thousand searches, its second search comes after the first one of every other caller.
// Not thread-safe.
class FairQueueAccounts {
 public:
  // A sum that decays by half in each half-life.
  class Decayed {
   public:
    void Add(double value, TimePoint now);
    double At(TimePoint now) const;

   private:
    double value_ = 0;
    TimePoint at_;
  };
  // One caller's account.
  struct Account {
    int64_t requests = 0;                       // requests that wait
    int64_t bytes = 0;                          // bytes of waiting requests
    std::array<double, kPriorities> cost_us{};  // their predicted device time
    int64_t running = 0;                        // requests in the running pass
    std::array<double, kPriorities> finish{};
    Decayed served_us;  // device time that the caller received
  };

  // Returns the entry of `name`. The pointer is valid until the next Find, and while requests of
  // the caller wait or run. If too many callers have an account that is not idle, new callers share
  // one entry.
  Account* Find(const std::string& name);

  // Returns the start of the caller's next search.
  double StartOf(const Account& caller, SearchPriority priority) const;
  // Books a search that starts at `start` and takes `cost_us`.
  void Book(Account* caller, SearchPriority priority, double start, double cost_us);
  // Advances the virtual clock: a pass begins whose leader has this start.
  void Serve(SearchPriority priority, double start);
  // AddWaiting adds a waiting search of the caller; RemoveWaiting removes one.
  struct Load {
    SearchPriority priority = SearchPriority::kInteractive;
    int64_t bytes = 0;
    double cost_us = 0;
  };
  void AddWaiting(Account* caller, const Load& load);
  void RemoveWaiting(Account* caller, const Load& load);
  // Updates the mean number of waiting callers. Call it before a pass is chosen.
  void BeginPass();
  // Records that the caller received `us` of a device pass that ended at `now`.
  void AddServed(Account* caller, double us, TimePoint now);
  // Returns how long a search of this priority waits for the caller's own searches, if other
  // callers keep the load of the recent past. That is the predicted time of those own searches that
  // do not yield to this priority, divided by the caller's share of the device. The share is the
  // caller's recent one, or an equal share among all waiting callers if that is larger. The current
  // queue alone underestimates the wait: callers that come later but received less device time go
  // first.
  double BacklogUs(const Account& caller, SearchPriority priority, TimePoint now) const;
  // Drops the debts of all callers. Called when nothing waits and nothing runs.
  void Forget();

  size_t size() const { return callers_.size(); }

 private:
  bool IsIdle(const Account& caller) const;

  std::unordered_map<std::string, Account> callers_;
  std::array<double, kPriorities> now_{};         // the virtual clocks
  std::array<double, kPriorities> finish_max_{};  // the latest end that was booked
  Decayed served_us_;
  int64_t waiting_ = 0;      // number of callers that wait
  double waiting_mean_ = 0;  // mean of waiting_ at the beginning of a pass
};

}  // namespace nearfield::server

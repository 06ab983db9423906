// Who waits, and whose turn it is: equal shares of the device's time for every caller.
#ifndef NEARFIELD_SERVER_BATCHING_CALLER_TABLE_H_
#define NEARFIELD_SERVER_BATCHING_CALLER_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "server/batching/clock.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

// Start-time fair queueing. Each search gets a start on the virtual clock of its priority: the
// clock's time, or where the searches of its caller before it end, whichever is later; its end is
// the device time that it is predicted to take later. Searches are served by their starts, so that
// a caller with a thousand of them has its second one behind the first one of everybody else. Not
// thread-safe.
class CallerTable {
 public:
  // A sum of which half is forgotten in each half-life.
  class Decayed {
   public:
    void Add(double value, TimePoint now);
    double At(TimePoint now) const;

   private:
    double value_ = 0;
    TimePoint at_;
  };
  struct Caller {
    int64_t requests = 0;                       // that wait
    int64_t bytes = 0;                          // of them
    std::array<double, kPriorities> cost_us{};  // of them, as predicted
    int64_t running = 0;                        // requests in the pass that runs
    std::array<double, kPriorities> finish{};
    Decayed served_us;  // of the device
  };

  // The entry of `name`. The pointer lives while requests of the caller wait or run, and until the
  // next Find. Beyond a bound on those with a debt, newcomers share one entry.
  Caller* Find(const std::string& name);

  // The start of the caller's next search.
  double StartOf(const Caller& caller, SearchPriority priority) const;
  // Books a search of `cost_us` that starts at `start`.
  void Book(Caller* caller, SearchPriority priority, double start, double cost_us);
  // A pass led by a search with this start begins.
  void Serve(SearchPriority priority, double start);
  // A search of the caller waits from now on; or does not any more.
  struct Load {
    SearchPriority priority = SearchPriority::kInteractive;
    int64_t bytes = 0;
    double cost_us = 0;
  };
  void Enter(Caller* caller, const Load& load);
  void Leave(Caller* caller, const Load& load);
  // A pass is about to be chosen.
  void NotePassBegins();
  // The caller had `us` of a pass of the device that ended at `now`.
  void NoteServed(Caller* caller, double us, TimePoint now);
  // How long the caller's searches that wait, and do not yield to this priority, have to, if others
  // keep coming as they did: their time over the share of the device that the caller can count on,
  // which is the one it had lately, or an equal one with all who wait. Others that come later, but
  // have had less, go first: what waits now tells too little.
  double BacklogUs(const Caller& caller, SearchPriority priority, TimePoint now) const;
  // Nothing waits and nothing runs: what callers had is forgotten.
  void Forget();

  size_t size() const { return callers_.size(); }

 private:
  bool IsIdle(const Caller& caller) const;

  std::unordered_map<std::string, Caller> callers_;
  std::array<double, kPriorities> now_{};         // the virtual clocks
  std::array<double, kPriorities> finish_max_{};  // the latest end that was booked
  Decayed served_us_;
  int64_t waiting_ = 0;      // callers
  double waiting_mean_ = 0;  // when a pass begins
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_CALLER_TABLE_H_

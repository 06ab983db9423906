// Forecast: predicts when a search that arrives now is answered.
#pragma once

#include <cstdint>

#include "server/scheduler/batch_former.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/pending_queue.h"

namespace nearfield::server {

// The pass that the engine runs now.
struct RunningPass {
  TimePoint begin;
  double predicted_us = 0;
};

// A search that asks for admission.
struct Newcomer {
  const TicketGroup* group = nullptr;
  SearchPriority priority = SearchPriority::kInteractive;
  double start = 0;  // on the virtual clock of its priority
  int64_t queries = 0;
};

struct Forecast {
  double wait_us = 0;  // until its pass begins; Predict does not include the running pass
  double pass_us = 0;  // duration of that pass
  double total_us() const { return wait_us + pass_us; }
};

// Returns the predicted remaining time of the pass. If it has overrun its estimate by t, assumes
// that it needs another t.
double RemainingUs(const RunningPass& pass, TimePoint now);

// Predicts the time of the waiting passes that run before the newcomer's pass, and of that pass.
// The caller adds the running pass (RemainingUs). Each pass is filled with the searches that can
// share it. Cost: one binary search for each group that waits.
Forecast Predict(const PendingQueue& pending, const BatchLimits& limits, const Newcomer& newcomer);

// Predicts the time of all passes that serve the waiting searches.
double DrainUs(const PendingQueue& pending, const BatchLimits& limits);

}  // namespace nearfield::server

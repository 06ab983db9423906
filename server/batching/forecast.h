// When a search that comes now would be answered.
#ifndef NEARFIELD_SERVER_BATCHING_FORECAST_H_
#define NEARFIELD_SERVER_BATCHING_FORECAST_H_

#include <cstdint>
#include <memory>

#include "server/batching/batch_former.h"
#include "server/batching/clock.h"
#include "server/batching/ticket_lines.h"

namespace nearfield::server {

// The pass that the engine works on.
struct RunningPass {
  TimePoint begin;
  double predicted_us = 0;
};

// A search that asks to wait.
struct Newcomer {
  const TicketGroup* group = nullptr;
  SearchPriority priority = SearchPriority::kInteractive;
  double start = 0;  // on the virtual clock of its priority
  int64_t queries = 0;
};

struct Forecast {
  double wait_us = 0;  // until its pass begins
  double pass_us = 0;  // of that pass
  double total_us() const { return wait_us + pass_us; }
};

// The rest of the pass: what is left of the prediction or, past it, as much again as it is late.
double RemainingUs(const RunningPass& pass, TimePoint now);

// The time of all passes whose turn is before that of the newcomer, and of its own, filled with
// what can share them. Cost: a binary search for each group that waits.
Forecast Predict(const TicketLines& lines, const BatchLimits& limits, const Newcomer& newcomer);

// The time of all passes that serve what waits.
double DrainUs(const TicketLines& lines, const BatchLimits& limits);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_FORECAST_H_

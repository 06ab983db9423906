// One device pass for several searches, and the answer of each.
#ifndef NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_
#define NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"
#include "server/batching/pass_counter.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

// A device pass that has ended, before its tickets are answered.
struct Pass {
  SearchTickets tickets;
  absl::StatusOr<SearchResult> result = absl::UnknownError("not run");
  std::shared_ptr<const PinnedEpoch> at;  // the state that was searched
  TimePoint begin;
  TimePoint end;
};

// What a pass runs on. All outlive it.
struct PassBase {
  Engine* engine = nullptr;
  const Clock* clock = nullptr;
  PassCounter* counter = nullptr;
};

// Searches for all tickets with one Engine::Search. Requires: tickets of one collection and
// epoch with the same parts, at least one.
Pass RunPass(const PassBase& base, SearchTickets tickets);

// True where the pass failed and one ticket may be at fault for all: then RunHalves is to answer.
bool MaySplit(const Pass& pass);

// Calls every `done`: with its part of the result, in order, or with the failure.
void AnswerPass(const Clock& clock, Pass pass);

// Runs each half of a failed pass by itself, and so on, and answers: one at fault among n costs
// about 2 log2(n) more passes.
void RunHalves(const PassBase& base, Pass pass);

// All of it: runs the tickets as one pass and calls every `done`. The result contract makes the
// answers the same as alone; a ticket at fault does not fail its neighbors.
void RunBatch(const PassBase& base, SearchTickets tickets);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_

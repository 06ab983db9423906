// One device pass for several searches, and the answer of each.
#ifndef NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_
#define NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_

#include <vector>

#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

// Runs the tickets as one Engine::Search and calls every `done`. The result contract makes the
// answers the same as alone. A ticket at fault does not fail its neighbors: where a shared pass
// fails, each half of it is run by itself, and so on: one at fault among n costs about 2 log2(n)
// more passes. Requires: tickets of one collection with the same parts, at least one.
void RunBatch(Engine* engine, const Clock& clock, std::vector<SearchTicket> tickets);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_BATCH_RUNNER_H_

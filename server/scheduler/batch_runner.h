// RunPass and its helpers: run several searches as one device pass and answer each of them.
#pragma once

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/pass_counter.h"
#include "server/scheduler/search_request.h"
#include "server/scheduler/worker_pool.h"

namespace nearfield::server {

// A device pass that has ended but whose tickets are not answered yet.
struct Pass {
  SearchTickets tickets;
  absl::StatusOr<SearchResult> result = absl::UnknownError("not run");
  std::shared_ptr<const PinnedEpoch> at;  // the state that was searched
  TimePoint begin;
  TimePoint end;
};

// The objects that a pass uses. All outlive it.
struct PassBase {
  Engine* engine = nullptr;
  const Clock* clock = nullptr;
  PassCounter* counter = nullptr;
  // Answers shared passes, in chunks; null: the thread that runs a pass answers it.
  WorkerPool* replies = nullptr;
};

// Searches for all tickets with one Engine::Search.
// Requires: at least one ticket; all of the same collection, epoch and parts. Ordinals may differ:
// all tickets get them if one of them needs them.
Pass RunPass(const PassBase& base, SearchTickets tickets);

// Returns true if the pass failed and a single ticket may be the cause. Then call RunHalves.
bool MaySplit(const Pass& pass);

// Calls `done` of every ticket: with its part of the result, in order, or with the failure.
void AnswerPass(const Clock& clock, Pass pass);

// As AnswerPass, but the reply workers answer most of the tickets, each worker a chunk of them.
// `idle`: this thread has nothing else to do, and answers the last chunk. A worker that has no room
// leaves its chunk to this thread.
void AnswerInChunks(const PassBase& base, Pass pass, bool idle);

// Answers a failed pass: runs each half as a pass of its own, recursively. If one of n tickets is
// the cause, this costs about 2 log2(n) more passes.
void RunHalves(const PassBase& base, Pass pass);

// Runs the tickets as one pass and calls `done` of each. By the result contract every answer equals
// that of the search run alone. A ticket that causes a failure does not fail the others.
void RunBatch(const PassBase& base, SearchTickets tickets);

}  // namespace nearfield::server

// EngineThread: the thread that takes batches from a queue and searches an engine, and its helpers.
#pragma once

#include <thread>

#include "absl/status/status.h"
#include "server/scheduler/batch_runner.h"
#include "server/scheduler/search_queue.h"

namespace nearfield::server {

// Runs the passes of one engine on a thread, and on those of callers that lend theirs (Push).
// The engine thread takes batches and runs them. It also answers a pass of one search, and the rest
// of a pass after which nothing waits, which saves a thread switch; PassBase::replies answer the
// others, so that the engine thread takes the next batch immediately. A second thread answers
// searches whose deadline passes in the queue.
class EngineThread {
 public:
  // Starts the threads. The queue outlives this object.
  EngineThread(const PassBase& base, SearchQueue* queue);
  // Closes the queue and waits for the running pass and its answers.
  ~EngineThread();

  // Queues the ticket, as SearchQueue::Push. If this is the lent thread of the ticket, the engine
  // is idle, no search waits and the pass is short enough, this thread runs the pass, which saves
  // two thread switches, and has called `done` when it returns. Admission, limits and the learned
  // times are the same. Requires: this object lives until Push returns.
  absl::Status Push(SearchTicket ticket);

 private:
  void Loop();
  void Finish(Pass pass);

  const PassBase base_;
  SearchQueue* const queue_;
  std::thread thread_;
  std::thread watcher_;
};

}  // namespace nearfield::server

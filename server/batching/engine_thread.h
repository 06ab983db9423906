// The thread that searches an engine: takes what waits, runs it, takes again; and those beside it.
#ifndef NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_
#define NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_

#include <thread>

#include "server/batching/batch_runner.h"
#include "server/batching/search_queue.h"
#include "server/batching/worker_pool.h"

namespace nearfield::server {

// Between two passes the engine thread only takes the next batch: while more waits, another thread
// answers a pass of many. A pass of few, or after which nothing waits, it answers by itself, which
// saves the way to another thread. A third thread answers those whose deadline passes in the queue.
class EngineThread {
 public:
  // Starts at once. The queue outlives it.
  EngineThread(const PassBase& base, SearchQueue* queue);
  // Closes the queue, waits for the pass that runs, and for its answers.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  void Loop();
  void Finish(Pass pass);

  const PassBase base_;
  SearchQueue* const queue_;
  WorkerPool answers_;
  std::thread thread_;
  std::thread watcher_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_

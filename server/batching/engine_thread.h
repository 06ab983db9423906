// The one thread that searches an engine: takes what waits, runs it, takes again.
#ifndef NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_
#define NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_

#include <thread>

#include "nearfield/engine/engine.h"
#include "server/batching/clock.h"
#include "server/batching/search_queue.h"

namespace nearfield::server {

class EngineThread {
 public:
  // Starts at once. All three outlive it.
  EngineThread(Engine* engine, SearchQueue* queue, const Clock* clock);
  // Closes the queue, and waits for the pass that runs.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  void Loop();

  Engine* const engine_;
  SearchQueue* const queue_;
  const Clock* const clock_;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_ENGINE_THREAD_H_

#include "server/batching/engine_thread.h"

#include <utility>
#include <vector>

#include "server/batching/batch_runner.h"

namespace nearfield::server {

EngineThread::EngineThread(Engine* engine, SearchQueue* queue, const Clock* clock)
    : engine_(engine), queue_(queue), clock_(clock), thread_([this] { Loop(); }) {}

EngineThread::~EngineThread() {
  queue_->Close();
  thread_.join();
}

void EngineThread::Loop() {
  while (true) {
    std::vector<SearchTicket> batch = queue_->Take();
    if (batch.empty()) return;
    const TimePoint begin = clock_->Now();
    RunBatch(engine_, *clock_, std::move(batch));
    queue_->NotePass(MicrosBetween(begin, clock_->Now()));
  }
}

}  // namespace nearfield::server

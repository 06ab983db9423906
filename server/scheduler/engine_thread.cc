#include "server/scheduler/engine_thread.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {

EngineThread::EngineThread(const PassBase& base, SearchQueue* queue)
    : base_(base), queue_(queue), thread_([this] { Loop(); }), watcher_([this] {
        while (queue_->AwaitOverdue()) {
        }
      }) {}

EngineThread::~EngineThread() {
  queue_->Close();
  thread_.join();
  watcher_.join();
}

absl::Status EngineThread::Push(SearchTicket ticket) {
  const LentThread& lent = ticket.lent_thread;
  if (lent.pass_us_max <= 0 || lent.id != std::this_thread::get_id()) {
    return queue_->Push(std::move(ticket));
  }
  Pass pass;
  ABSL_ASSIGN_OR_RETURN(SearchTickets batch, queue_->PushOrTake(std::move(ticket)));
  if (batch.empty()) return absl::OkStatus();  // queued
  {
    // Ends the pass in the queue even if it finds no memory.
    const absl::Cleanup record = [&] {
      queue_->RecordPass(ExactMicrosBetween(pass.begin, pass.end), pass.result.ok());
    };
    pass = RunPass(base_, std::move(batch));
  }
  AnswerPass(*base_.clock, std::move(pass));
  return absl::OkStatus();
}

void EngineThread::Loop() {
  while (true) {
    SearchTickets batch = queue_->Take();
    if (batch.empty()) return;
    Pass pass = RunPass(base_, std::move(batch));
    queue_->RecordPass(ExactMicrosBetween(pass.begin, pass.end), pass.result.ok());
    if (MaySplit(pass)) {
      RunHalves(base_, std::move(pass));
    } else {
      Finish(std::move(pass));
    }
  }
}

void EngineThread::Finish(Pass pass) {
  if (base_.replies == nullptr || pass.tickets.size() == 1) {
    return AnswerPass(*base_.clock, std::move(pass));
  }
  AnswerInChunks(base_, std::move(pass), queue_->waiting() == 0);
}

}  // namespace nearfield::server

#include "server/scheduler/engine_thread.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// Number of passes that may wait for their answers while another pass is answered. Their results
// stay in memory until then. Beyond this number the engine thread answers, and so waits for the
// conversion of replies.
constexpr int64_t kAnswersMax = 1;

// A pass with fewer tickets is cheaper to answer than to hand to another thread.
constexpr size_t kHandOverMin = 16;

}  // namespace

EngineThread::EngineThread(const PassBase& base, SearchQueue* queue)
    : base_(base),
      queue_(queue),
      answers_({.what = "answers", .threads = 1, .waiting_max = kAnswersMax}),
      thread_([this] { Loop(); }),
      watcher_([this] {
        while (queue_->AwaitOverdue()) {
        }
      }) {}

EngineThread::~EngineThread() {
  queue_->Close();
  thread_.join();
  watcher_.join();
}

absl::Status EngineThread::Push(SearchTicket ticket) {
  if (ticket.waiting_thread != std::this_thread::get_id()) return queue_->Push(std::move(ticket));
  ABSL_ASSIGN_OR_RETURN(SearchTickets batch, queue_->PushOrTake(std::move(ticket)));
  if (batch.empty()) return absl::OkStatus();  // queued
  Pass pass = RunPass(base_, std::move(batch));
  queue_->RecordPass(ExactMicrosBetween(pass.begin, pass.end), pass.result.ok());
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
  if (pass.tickets.size() < kHandOverMin || queue_->waiting() == 0) {
    return AnswerPass(*base_.clock, std::move(pass));
  }
  // std::function needs a copyable job, and a Pass cannot be copied.
  auto kept = std::make_shared<Pass>(std::move(pass));
  const absl::Status posted =
      answers_.Post([this, kept] { AnswerPass(*base_.clock, std::move(*kept)); });
  if (!posted.ok()) AnswerPass(*base_.clock, std::move(*kept));
}

}  // namespace nearfield::server

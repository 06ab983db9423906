#include "server/rpc/search_rounds.h"

#include <memory>
#include <utility>

namespace nearfield::server {
namespace {

// Answers on a worker, because the thread that answers a search has other answers to send.
void AnswerOnWorker(Core* core,
                    const std::shared_ptr<std::function<void(absl::StatusOr<SearchReply>)>>& done,
                    absl::StatusOr<SearchReply> answer) {
  auto kept = std::make_shared<absl::StatusOr<SearchReply>>(std::move(answer));
  const auto job = [done, kept] { (*done)(std::move(*kept)); };
  if (!core->replies.Post(job).ok()) job();
}

}  // namespace

void SearchRounds::Start(SearchRequest request,
                         std::function<void(absl::StatusOr<SearchReply>)> done) const {
  SearchTicket ticket;
  ticket.request = std::move(request);
  ticket.caller = caller;
  ticket.priority = priority;
  ticket.deadline = deadline;
  ticket.cancelled = cancelled;
  const auto shared = std::make_shared<decltype(done)>(std::move(done));
  ticket.done = [to = core, shared](absl::StatusOr<SearchReply> answer) {
    AnswerOnWorker(to, shared, std::move(answer));
  };
  const absl::Status pushed = core->engine_thread.Push(std::move(ticket));
  if (!pushed.ok()) (*shared)(pushed);
}

}  // namespace nearfield::server

#include "server/batching/batch_runner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/search_queue.h"

namespace nearfield::server {
namespace {

// The pass is given up only when nobody waits for any part of it.
bool NobodyWaits(const Clock& clock, const std::vector<SearchTicket>& tickets) {
  const TimePoint now = clock.Now();
  for (const SearchTicket& ticket : tickets) {
    if (Wanted(ticket, now).ok()) return false;
  }
  return true;
}

// Splits the results of a pass over its tickets, in order.
void Answer(SearchResult result, TimePoint started, std::vector<SearchTicket>* tickets) {
  const auto batch_size = static_cast<int32_t>(result.queries.size());
  auto next = result.queries.begin();
  for (SearchTicket& ticket : *tickets) {
    const auto end = next + static_cast<std::ptrdiff_t>(ticket.request.queries.size());
    SearchReply reply;
    reply.result.epoch = result.epoch;
    reply.result.cost = result.cost;
    reply.result.queries.assign(std::make_move_iterator(next), std::make_move_iterator(end));
    reply.timing = {.queue_us = MicrosBetween(ticket.queued, started), .batch_size = batch_size};
    next = end;
    ticket.done(std::move(reply));
  }
}

void Fail(const absl::Status& status, const Clock& clock, std::vector<SearchTicket>* tickets) {
  for (SearchTicket& ticket : *tickets) {
    // The engine says Cancelled for a passed deadline as well: tell the caller which it was.
    const absl::Status why =
        absl::IsCancelled(status) ? Wanted(ticket, clock.Now()) : absl::OkStatus();
    ticket.done(why.ok() ? status : why);
  }
}

}  // namespace

void RunBatch(Engine* engine, const Clock& clock, std::vector<SearchTicket> tickets) {
  SearchBatch batch;
  batch.parts = tickets.front().request.parts;
  // The limit is that of one reply; several share a bound of a few.
  batch.parts.bytes_max *= std::min(static_cast<int64_t>(tickets.size()), kBatchRepliesMax);
  for (const SearchTicket& ticket : tickets) {
    batch.queries.insert(batch.queries.end(), ticket.request.queries.begin(),
                         ticket.request.queries.end());
  }
  batch.cancelled = [&clock, &tickets] { return NobodyWaits(clock, tickets); };
  const size_t queries_count = batch.queries.size();
  const TimePoint started = clock.Now();
  absl::StatusOr<SearchResult> result = engine->Search(*tickets.front().request.collection, batch);
  if (result.ok() && result->queries.size() != queries_count) {
    result = absl::InternalError(absl::StrCat("the engine answered ", result->queries.size(),
                                              " of ", queries_count, " queries"));
  }
  if (result.ok()) return Answer(*std::move(result), started, &tickets);
  if (tickets.size() == 1 || absl::IsUnavailable(result.status()) ||
      absl::IsCancelled(result.status())) {
    return Fail(result.status(), clock, &tickets);
  }
  const auto middle = tickets.begin() + static_cast<std::ptrdiff_t>(tickets.size() / 2);
  std::vector<SearchTicket> second(std::make_move_iterator(middle),
                                   std::make_move_iterator(tickets.end()));
  tickets.erase(middle, tickets.end());
  RunBatch(engine, clock, std::move(tickets));
  RunBatch(engine, clock, std::move(second));
}

}  // namespace nearfield::server

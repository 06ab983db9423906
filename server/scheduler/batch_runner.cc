#include "server/scheduler/batch_runner.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/scheduler/search_queue.h"

namespace nearfield::server {
namespace {

// Lets the caller whose thread runs the pass cancel it.
void PollCaller(const SearchTicket& ticket, TimePoint now, TimePoint* next) {
  if (ticket.interrupted == nullptr || now < *next) return;
  if (ticket.lent_thread.id != std::this_thread::get_id()) return;
  *next = now + SearchTicket::kInterruptPoll;
  if (ticket.interrupted()) ticket.cancelled->store(true);
}

// Returns true if no caller waits for any part of the pass; only then is the pass cancelled.
bool NobodyWaits(TimePoint now, const SearchTickets& tickets) {
  return absl::c_none_of(tickets,
                         [now](const auto& ticket) { return CheckAlive(*ticket, now).ok(); });
}

// Tickets that a worker answers at a time: fewer would take more time for the switches between
// threads than for their replies.
constexpr size_t kChunk = 8;

// Tickets [begin, end) of a pass, whose queries begin at `first_query`.
struct Chunk {
  size_t begin = 0;
  size_t end = 0;
  size_t first_query = 0;
};

// Answers a chunk with its part of the result, in order. Returns the query after it.
size_t Answer(const Chunk& chunk, Pass* pass) {
  SearchResult& result = *pass->result;
  auto next = result.queries.begin() + static_cast<std::ptrdiff_t>(chunk.first_query);
  for (size_t i = chunk.begin; i < chunk.end; ++i) {
    const SearchTicket& ticket = *pass->tickets[i];
    const auto end = next + static_cast<std::ptrdiff_t>(ticket.request.queries.size());
    SearchReply reply;
    reply.result.epoch = result.epoch;
    reply.result.cost = result.cost;
    reply.result.queries.assign(std::make_move_iterator(next), std::make_move_iterator(end));
    reply.at = pass->at;
    reply.timing = {.queue_us = MicrosBetween(ticket.queued, pass->begin),
                    .batch_size = static_cast<int32_t>(result.queries.size())};
    next = end;
    ticket.done(std::move(reply));
  }
  return static_cast<size_t>(next - result.queries.begin());
}

// Returns the chunks of a pass.
std::vector<Chunk> ChunksOf(const Pass& pass) {
  std::vector<Chunk> chunks;
  size_t query = 0;
  for (size_t i = 0; i < pass.tickets.size(); ++i) {
    if (i % kChunk == 0) chunks.push_back({.begin = i, .end = i, .first_query = query});
    ++chunks.back().end;
    query += pass.tickets[i]->request.queries.size();
  }
  return chunks;
}

void Fail(const absl::Status& status, const Clock& clock, const SearchTickets& tickets) {
  for (const auto& ticket : tickets) {
    // The engine also returns Cancelled for an expired deadline. Report which of the two it was.
    const absl::Status why =
        absl::IsCancelled(status) ? CheckAlive(*ticket, clock.Now()) : absl::OkStatus();
    ticket->done(why.ok() ? status : why);
  }
}

// Moves the queries of a pass that failed back to its tickets, which may run again in two halves.
void GiveBack(std::vector<Query> queries, const SearchTickets& tickets) {
  auto next = queries.begin();
  for (const auto& ticket : tickets) {
    for (Query& query : ticket->request.queries) query = std::move(*next++);
  }
}

// Returns the bytes that the pass may copy: the vectors and payloads reserved for its replies. A
// search that runs alone may need more than was reserved. It gets the bytes of a full reply if the
// account has room.
int64_t CopyBytesMax(const SearchTickets& tickets) {
  const RowParts& parts = tickets.front()->request.parts;
  if (tickets.size() == 1 && (parts.vectors || parts.payloads) &&
      tickets.front()->reply != nullptr) {
    ByteAccount::Hold* const reply = tickets.front()->reply;
    return reply->Grow(parts.bytes_max).ok() ? parts.bytes_max : reply->bytes();
  }
  int64_t reserved = 0;
  for (const auto& ticket : tickets) {
    reserved += ticket->reply != nullptr ? ticket->reply->bytes() : parts.bytes_max;
  }
  return std::min(reserved, kBatchRepliesMax * parts.bytes_max);
}

}  // namespace

Pass RunPass(const PassBase& base, SearchTickets tickets) {
  Pass pass;
  pass.tickets = std::move(tickets);
  SearchBatch batch;
  batch.parts = pass.tickets.front()->request.parts;
  batch.parts.bytes_max = CopyBytesMax(pass.tickets);
  batch.queries.reserve(pass.tickets.size());
  for (const auto& ticket : pass.tickets) {
    std::vector<Query>& queries = ticket->request.queries;
    batch.queries.insert(batch.queries.end(), std::make_move_iterator(queries.begin()),
                         std::make_move_iterator(queries.end()));
    batch.parts.ordinals |= ticket->request.parts.ordinals;
  }
  const size_t queries_count = batch.queries.size();
  pass.begin = base.clock->Now();
  TimePoint poll_at = pass.begin + SearchTicket::kInterruptPoll;
  batch.cancelled = [&] {
    const TimePoint now = base.clock->Now();
    PollCaller(*pass.tickets.front(), now, &poll_at);
    return NobodyWaits(now, pass.tickets);
  };
  const SearchRequest& first = pass.tickets.front()->request;
  batch.at = pass.at = first.at != nullptr ? first.at : first.collection->PinEpoch();
  pass.result = base.engine->Search(*first.collection, batch);
  pass.end = base.clock->Now();
  if (pass.result.ok() && pass.result->queries.size() != queries_count) {
    pass.result = absl::InternalError(absl::StrCat(
        "the engine answered ", pass.result->queries.size(), " of ", queries_count, " queries"));
  }
  if (pass.result.ok()) {
    base.counter->Record(*pass.result);
  } else {
    GiveBack(std::move(batch.queries), pass.tickets);
  }
  return pass;
}

bool MaySplit(const Pass& pass) {
  return !pass.result.ok() && pass.tickets.size() > 1 &&
         !absl::IsUnavailable(pass.result.status()) && !absl::IsCancelled(pass.result.status());
}

void AnswerPass(const Clock& clock, Pass pass) {
  if (!pass.result.ok()) return Fail(pass.result.status(), clock, pass.tickets);
  const size_t answered = Answer({.begin = 0, .end = pass.tickets.size()}, &pass);
  CHECK(answered == pass.result->queries.size());
}

void AnswerInChunks(const PassBase& base, Pass pass, bool idle) {
  if (!pass.result.ok()) return AnswerPass(*base.clock, std::move(pass));
  const std::vector<Chunk> chunks = ChunksOf(pass);
  const auto kept = std::make_shared<Pass>(std::move(pass));
  for (const Chunk& chunk : chunks) {
    const auto answer = [kept, chunk] { Answer(chunk, kept.get()); };
    const bool own = idle && chunk.end == kept->tickets.size();
    if (own || !base.replies->Post(answer).ok()) answer();
  }
}

void RunHalves(const PassBase& base, Pass pass) {
  const auto middle = pass.tickets.begin() + static_cast<std::ptrdiff_t>(pass.tickets.size() / 2);
  SearchTickets second(std::make_move_iterator(middle),
                       std::make_move_iterator(pass.tickets.end()));
  pass.tickets.erase(middle, pass.tickets.end());
  RunBatch(base, std::move(pass.tickets));
  RunBatch(base, std::move(second));
}

void RunBatch(const PassBase& base, SearchTickets tickets) {
  Pass pass = RunPass(base, std::move(tickets));
  if (MaySplit(pass)) return RunHalves(base, std::move(pass));
  AnswerPass(*base.clock, std::move(pass));
}

}  // namespace nearfield::server

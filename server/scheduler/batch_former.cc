#include "server/scheduler/batch_former.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace nearfield::server {
namespace {

constexpr auto kInteractive = SearchPriority::kInteractive;
constexpr auto kBatch = SearchPriority::kBatch;
// Maximum number of searches to skip because they do not fit. A longer scan costs time in which the
// device is idle.
constexpr size_t kSkipsMax = 64;

}  // namespace

bool BatchFormer::IsDead(const PendingSearch& entry, TimePoint now) {
  const SearchTicket& ticket = *entry.ticket;
  if (entry.deadline <= now) return true;
  return ticket.cancelled != nullptr && ticket.cancelled->load(std::memory_order_relaxed);
}

TicketGroup* BatchFormer::Lead(TimePoint now, FormedBatch* batch) {
  while (!pending_->empty()) {
    TicketGroup* const interactive = pending_->First(kInteractive);
    TicketGroup* const batched = pending_->First(kBatch);
    TicketGroup* group = interactive != nullptr ? interactive : batched;
    batch->leader = interactive != nullptr ? kInteractive : kBatch;
    batch->yielded = false;
    if (interactive != nullptr && batched != nullptr) {
      const int64_t queries = batched->queues[0].queries() + batched->queues[1].queries();
      const double pass_us =
          batched->PredictUs(static_cast<double>(std::min(queries, limits_.batch_max)));
      // kBatch leads once it has saved the time that its own pass takes from the others.
      if (saved_us_ > 0 && saved_us_ >= (1 - limits_.batch_share) * pass_us) {
        group = batched;
        batch->leader = kBatch;
        batch->yielded = true;
      }
    }
    if (!IsDead(group->queue(batch->leader).front(), now)) return group;
    batch->dead.push_back(std::move(pending_->PopFront(group, batch->leader).ticket));
  }
  return nullptr;
}

FormedBatch BatchFormer::Form(TimePoint now) {
  FormedBatch batch;
  accounts_->BeginPass();
  TicketGroup* const group = Lead(now, &batch);
  if (group == nullptr) return batch;
  batch.latency = group->latency;
  batch.kind = group->kind;
  batch.work = group->work;
  const auto room = static_cast<size_t>(std::min(
      limits_.batch_max, static_cast<int64_t>(group->queues[0].size() + group->queues[1].size())));
  batch.tickets.reserve(room);
  batch.parts.reserve(room);
  // The leader runs, however large it is.
  PendingSearch first = pending_->PopFront(group, batch.leader);
  accounts_->Serve(batch.leader, first.start);
  batch.queries = first.queries;
  reply_bytes_ = first.reply_bytes;
  Take(first, &batch);
  Fill(group, kInteractive, {limits_.batch_max, limits_.reply_bytes_max}, now, &batch);
  if (!group->queue(kBatch).empty()) {
    const int64_t queries_max = batch.leader == kBatch
                                    ? limits_.batch_max
                                    : batch.queries + AddedQueriesMax(*group, batch.queries);
    Fill(group, kBatch, {queries_max, limits_.reply_bytes_max}, now, &batch);
  }
  if (batch.tickets.size() > 1) {
    CHECK_LE(batch.queries, limits_.batch_max);
    CHECK_LE(reply_bytes_, limits_.reply_bytes_max);
  }
  return batch;
}

void BatchFormer::Fill(TicketGroup* group, SearchPriority priority, Room room, TimePoint now,
                       FormedBatch* batch) {
  size_t skips = 0;
  using Decision = TurnQueue::Decision;
  pending_->TakeFromFront(
      group, priority,
      [&](const PendingSearch& entry) {
        if (batch->queries >= room.queries || skips > kSkipsMax) return Decision::kStop;
        if (IsDead(entry, now)) return Decision::kDrop;
        if (entry.queries > room.queries - batch->queries ||
            entry.reply_bytes > room.reply_bytes - reply_bytes_) {
          ++skips;
          return Decision::kSkip;
        }
        batch->queries += entry.queries;
        reply_bytes_ += entry.reply_bytes;
        return Decision::kTake;
      },
      [&](PendingSearch& entry, Decision decision) {
        if (decision == Decision::kTake) return Take(entry, batch);
        batch->dead.push_back(std::move(entry.ticket));
      });
}

int64_t BatchFormer::AddedQueriesMax(const TicketGroup& group, int64_t queries) const {
  const double us_max = group.PredictUs(static_cast<double>(queries)) / (1 - limits_.batch_share);
  int64_t fits = 0;
  int64_t too_many = limits_.batch_max - queries + 1;
  while (too_many - fits > 1) {
    const int64_t middle = fits + (too_many - fits) / 2;
    const double us = group.PredictUs(static_cast<double>(queries + middle));
    (us <= us_max ? fits : too_many) = middle;
  }
  return fits;
}

void BatchFormer::Take(PendingSearch& entry, FormedBatch* batch) {
  ++entry.caller->running;
  batch->parts.push_back({.caller = entry.caller, .queries = entry.queries});
  batch->tickets.push_back(std::move(entry.ticket));
}

void BatchFormer::RecordPass(FormedBatch* batch, double us, TimePoint now) {
  const double query_us = us / static_cast<double>(std::max<int64_t>(batch->queries, 1));
  for (const PassPart& part : batch->parts) {
    CHECK_GT(part.caller->running, 0);
    --part.caller->running;
    accounts_->AddServed(part.caller, query_us * static_cast<double>(part.queries), now);
  }
  batch->parts.clear();
  if (batch->yielded) {
    saved_us_ = std::max(0.0, saved_us_ - (1 - limits_.batch_share) * us);
  } else if (batch->leader == kInteractive && pending_->HasWaiting(kBatch)) {
    saved_us_ += limits_.batch_share * us;
  }
  if (!pending_->HasWaiting(kBatch)) saved_us_ = 0;
}

}  // namespace nearfield::server

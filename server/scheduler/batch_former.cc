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

bool BatchFormer::IsDead(const LineEntry& entry, TimePoint now) {
  const SearchTicket& ticket = *entry.ticket;
  if (entry.deadline <= now) return true;
  return ticket.cancelled != nullptr && ticket.cancelled->load(std::memory_order_relaxed);
}

TicketGroup* BatchFormer::Lead(TimePoint now, FormedBatch* batch) {
  while (!lines_->empty()) {
    TicketGroup* const interactive = lines_->First(kInteractive);
    TicketGroup* const batched = lines_->First(kBatch);
    TicketGroup* group = interactive != nullptr ? interactive : batched;
    batch->leader = interactive != nullptr ? kInteractive : kBatch;
    batch->yielded = false;
    if (interactive != nullptr && batched != nullptr) {
      const int64_t queries = batched->lines[0].queries() + batched->lines[1].queries();
      const double pass_us =
          batched->PredictUs(static_cast<double>(std::min(queries, limits_.batch_max)));
      // kBatch leads once it has saved the time that its own pass takes from the others.
      if (saved_us_ > 0 && saved_us_ >= (1 - limits_.batch_share) * pass_us) {
        group = batched;
        batch->leader = kBatch;
        batch->yielded = true;
      }
    }
    if (!IsDead(group->line(batch->leader).front(), now)) return group;
    batch->dead.push_back(std::move(lines_->PopFront(group, batch->leader).ticket));
  }
  return nullptr;
}

FormedBatch BatchFormer::Form(TimePoint now) {
  FormedBatch batch;
  callers_->NotePassBegins();
  TicketGroup* const group = Lead(now, &batch);
  if (group == nullptr) return batch;
  batch.times = group->times;
  batch.kind = group->kind;
  batch.work = group->work;
  const auto room = static_cast<size_t>(std::min(
      limits_.batch_max, static_cast<int64_t>(group->lines[0].size() + group->lines[1].size())));
  batch.tickets.reserve(room);
  batch.parts.reserve(room);
  // The leader runs, however large it is.
  LineEntry first = lines_->PopFront(group, batch.leader);
  callers_->Serve(batch.leader, first.start);
  batch.queries = first.queries;
  reply_bytes_ = first.reply_bytes;
  Take(first, &batch);
  Fill(group, kInteractive, {limits_.batch_max, limits_.reply_bytes_max}, now, &batch);
  if (!group->line(kBatch).empty()) {
    const int64_t queries_max = batch.leader == kBatch
                                    ? limits_.batch_max
                                    : batch.queries + RidersMax(*group, batch.queries);
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
  using Choice = TicketLine::Choice;
  lines_->TakeFromFront(
      group, priority,
      [&](const LineEntry& entry) {
        if (batch->queries >= room.queries || skips > kSkipsMax) return Choice::kStop;
        if (IsDead(entry, now)) return Choice::kDrop;
        if (entry.queries > room.queries - batch->queries ||
            entry.reply_bytes > room.reply_bytes - reply_bytes_) {
          ++skips;
          return Choice::kSkip;
        }
        batch->queries += entry.queries;
        reply_bytes_ += entry.reply_bytes;
        return Choice::kTake;
      },
      [&](LineEntry& entry, Choice choice) {
        if (choice == Choice::kTake) return Take(entry, batch);
        batch->dead.push_back(std::move(entry.ticket));
      });
}

int64_t BatchFormer::RidersMax(const TicketGroup& group, int64_t queries) const {
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

void BatchFormer::Take(LineEntry& entry, FormedBatch* batch) {
  ++entry.caller->running;
  batch->parts.push_back({.caller = entry.caller, .queries = entry.queries});
  batch->tickets.push_back(std::move(entry.ticket));
}

void BatchFormer::Settle(FormedBatch* batch, double us, TimePoint now) {
  const double query_us = us / static_cast<double>(std::max<int64_t>(batch->queries, 1));
  for (const PassPart& part : batch->parts) {
    CHECK_GT(part.caller->running, 0);
    --part.caller->running;
    callers_->NoteServed(part.caller, query_us * static_cast<double>(part.queries), now);
  }
  batch->parts.clear();
  if (batch->yielded) {
    saved_us_ = std::max(0.0, saved_us_ - (1 - limits_.batch_share) * us);
  } else if (batch->leader == kInteractive && lines_->Waits(kBatch)) {
    saved_us_ += limits_.batch_share * us;
  }
  if (!lines_->Waits(kBatch)) saved_us_ = 0;
}

}  // namespace nearfield::server

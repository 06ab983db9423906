#include "server/scheduler/pending_queue.h"

#include "absl/algorithm/container.h"
#include "engine/base/check.h"

namespace nearfield::server {
namespace {

// Number of groups kept although nothing waits in them, so that a lone search finds its group.
constexpr size_t kGroupsKept = 16;

bool IsBefore(const PendingSearch& a, const PendingSearch& b) {
  return a.start != b.start ? a.start < b.start : a.number < b.number;
}

FairQueueAccounts::Load LoadOf(const PendingSearch& entry) {
  return {.priority = entry.ticket->priority, .bytes = entry.bytes, .cost_us = entry.cost_us};
}

}  // namespace

void TurnQueue::Insert(PendingSearch entry) {
  const int64_t queries = entry.queries;
  const bool last = entries_.empty() || IsBefore(entries_.back(), entry);
  const auto place = last ? entries_.end() : absl::c_upper_bound(entries_, entry, IsBefore);
  entries_.insert(place, std::move(entry));
  queries_ += queries;
}

PendingSearch TurnQueue::PopFront() {
  CHECK(!entries_.empty());
  PendingSearch first = std::move(entries_.front());
  entries_.pop_front();
  queries_ -= first.queries;
  return first;
}

double TurnQueue::QueriesBefore(double start) const {
  if (entries_.empty()) return 0;
  // A search with the same start arrived earlier and goes first.
  const auto place = std::upper_bound(
      entries_.begin(), entries_.end(), start,
      [](double value, const PendingSearch& entry) { return value < entry.start; });
  const auto before = static_cast<double>(place - entries_.begin());
  return before * static_cast<double>(queries_) / static_cast<double>(entries_.size());
}

SearchWork SearchWork::Of(const SearchRequest& request, int64_t k_max) {
  const Query& query = request.queries.front();
  const int64_t rows = request.at == nullptr ? INT64_MAX : request.at->rows_count();
  const int64_t wanted = std::min(query.rows_wanted(), rows);
  const int64_t known = query.page_cache == nullptr ? 0 : query.page_cache->rows_count();
  if (known > 0) {
    const int64_t missing = std::max<int64_t>(0, wanted - known);
    return {.shared = false, .own_scans = missing / k_max + (missing % k_max > 0 ? 1 : 0)};
  }
  const int64_t behind = std::max<int64_t>(0, wanted - k_max);
  return {.own_scans = behind / k_max + (behind % k_max > 0 ? 1 : 0)};
}

double TicketGroup::PassUs(const LatencyModel& latency, PassKind kind, SearchWork work,
                           double queries) {
  const double shared_us = work.shared ? latency.PredictUs(kind, queries) : 0;
  if (work.own_scans == 0) return shared_us;
  return shared_us + static_cast<double>(work.own_scans) * queries * latency.PredictUs(kind, 1);
}

bool TicketGroup::Fits(const SearchRequest& request, SearchWork wanted) const {
  return work == wanted && few_rows == request.few_rows && collection == request.collection.get() &&
         parts.vectors == request.parts.vectors && parts.payloads == request.parts.payloads &&
         parts.bytes_max == request.parts.bytes_max && epoch == EpochOf(request);
}

TicketGroup* PendingQueue::GroupOf(const SearchRequest& request, SearchWork work) {
  for (const auto& group : groups_) {
    if (group->Fits(request, work)) return group.get();
  }
  if (groups_.size() >= kGroupsKept) {
    std::erase_if(groups_, [](const auto& group) { return group->empty(); });
  }
  groups_.push_back(std::make_unique<TicketGroup>(request, work));
  return groups_.back().get();
}

TicketGroup* PendingQueue::First(SearchPriority priority) const {
  TicketGroup* first = nullptr;
  if (!HasWaiting(priority)) return first;
  for (const auto& group : groups_) {
    const TurnQueue& queue = group->queue(priority);
    if (queue.empty()) continue;
    if (first == nullptr || IsBefore(queue.front(), first->queue(priority).front())) {
      first = group.get();
    }
  }
  return first;
}

void PendingQueue::Insert(TicketGroup* group, PendingSearch entry) {
  if (group->empty()) {
    group->kind = {.copies = group->parts.vectors || group->parts.payloads,
                   .few_rows = group->few_rows};
  }
  group->kind.k_max = std::max(group->kind.k_max, entry.k_max);
  entry.number = next_number_++;
  FairQueueAccounts::Account* const caller = entry.caller;
  const FairQueueAccounts::Load load = LoadOf(entry);
  const TimePoint deadline = entry.deadline;
  // It alone needs memory, so the totals count no search that is not there.
  group->queue(load.priority).Insert(std::move(entry));
  ++requests_;
  bytes_ += load.bytes;
  ++waiting_[IndexOf(load.priority)];
  accounts_->AddWaiting(caller, load);
  earliest_deadline_ = std::min(earliest_deadline_, deadline);
}

void PendingQueue::RemoveFromTotals(const PendingSearch& entry) {
  --requests_;
  bytes_ -= entry.bytes;
  --waiting_[IndexOf(entry.ticket->priority)];
  accounts_->RemoveWaiting(entry.caller, LoadOf(entry));
  CHECK_GE(bytes_, 0);
  CHECK_GE(waiting_[IndexOf(entry.ticket->priority)], 0);
  CHECK_EQ(requests_, waiting_[0] + waiting_[1]);
  if (requests_ == 0) {
    CHECK_EQ(bytes_, 0);
    earliest_deadline_ = TimePoint::max();
  }
}

PendingSearch PendingQueue::PopFront(TicketGroup* group, SearchPriority priority) {
  PendingSearch entry = group->queue(priority).PopFront();
  RemoveFromTotals(entry);
  return entry;
}

void PendingQueue::Sweep(TimePoint now, bool cancelled_too,
                         const std::function<void(PendingSearch&)>& dead) {
  TimePoint earliest = TimePoint::max();
  const auto is_dead = [&](const PendingSearch& entry) {
    const CancelFlag& cancelled = entry.ticket->cancelled;
    if (entry.deadline <= now || (cancelled_too && cancelled != nullptr && cancelled->load())) {
      return TurnQueue::Decision::kDrop;
    }
    earliest = std::min(earliest, entry.deadline);
    return TurnQueue::Decision::kSkip;
  };
  for (const auto& group : groups_) {
    for (const SearchPriority priority : {SearchPriority::kInteractive, SearchPriority::kBatch}) {
      TakeFromFront(group.get(), priority, is_dead,
                    [&](PendingSearch& entry, TurnQueue::Decision) { dead(entry); });
    }
  }
  earliest_deadline_ = earliest;
}

void PendingQueue::Clear(SearchTickets* all) {
  for (const auto& group : groups_) {
    for (const SearchPriority priority : {SearchPriority::kInteractive, SearchPriority::kBatch}) {
      while (!group->queue(priority).empty()) {
        all->push_back(std::move(PopFront(group.get(), priority).ticket));
      }
    }
  }
  CHECK_EQ(requests_, 0);
}

}  // namespace nearfield::server

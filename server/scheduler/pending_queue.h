// PendingQueue: the waiting searches, in turn order, by groups that can share a pass.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/scheduler/clock.h"
#include "server/scheduler/fair_queue_accounts.h"
#include "server/scheduler/latency_model.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// One search in its queue. It holds what choosing needs, so that only chosen tickets are touched.
struct PendingSearch {
  double start = 0;     // on the virtual clock of its priority
  uint64_t number = 0;  // sequence number of arrival
  int64_t queries = 0;
  int32_t k_max = 0;   // maximum k of its queries
  double cost_us = 0;  // predicted device time
  int64_t bytes = 0;
  int64_t reply_bytes = 0;
  TimePoint deadline = TimePoint::max();
  FairQueueAccounts::Account* caller = nullptr;
  std::unique_ptr<SearchTicket> ticket;
};

// The searches of one group and priority, ordered by (start, number).
class TurnQueue {
 public:
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  int64_t queries() const { return queries_; }
  const PendingSearch& front() const { return entries_.front(); }
  const PendingSearch& at(size_t index) const { return entries_[index]; }

  // Inserts in order. At either end no entry moves: searches of a busy caller go last, those of an
  // idle caller first.
  void Insert(PendingSearch entry);
  PendingSearch PopFront();

  // Returns the estimated number of queries in searches whose turn is before `start`. Uses the mean
  // number of queries in a search.
  double QueriesBefore(double start) const;

  // Calls `choose` for each search from the front. Removes those chosen with kTake or kDrop and
  // passes them to `out` with the decision.
  enum class Decision : uint8_t { kTake, kDrop, kSkip, kStop };  // kTake and kDrop remove the entry
  template <typename Choose, typename Out>
  void TakeFromFront(Choose choose, Out out) {
    size_t kept = 0;
    size_t looked = 0;
    for (; looked < entries_.size(); ++looked) {
      PendingSearch& entry = entries_[looked];
      const Decision decision = choose(std::as_const(entry));
      if (decision == Decision::kStop) break;
      if (decision != Decision::kSkip) {
        queries_ -= entry.queries;
        out(entry, decision);
      } else {
        if (kept != looked) entries_[kept] = std::move(entry);
        ++kept;
      }
    }
    if (kept == looked) return;
    // Move the skipped entries to the end of the gap, so that the rest of the queue does not move.
    std::move_backward(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(kept),
                       entries_.begin() + static_cast<std::ptrdiff_t>(looked));
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(looked - kept));
  }

 private:
  std::deque<PendingSearch> entries_;
  int64_t queries_ = 0;
};

// The device work of a search. It shares one scan with all searches of its pass, and needs scans of
// its own for rows beyond the first k_max. If earlier pages of its order are known, it does not
// share the scan and needs only scans of its own for the missing rows.
struct SearchWork {
  bool shared = true;     // takes part in the scan that the pass shares
  int64_t own_scans = 0;  // scans of its own for each query

  // `k_max`: rows that one scan finds. Requires: all queries of a request have the same `skip`.
  static SearchWork Of(const SearchRequest& request, int64_t k_max);
  friend bool operator==(const SearchWork&, const SearchWork&) = default;
};

// Searches that can share a pass: same collection, epoch, work and returned parts of rows. Their
// filters may differ, but those that leave few rows have passes of their own, which are faster.
struct TicketGroup {
  TicketGroup(const SearchRequest& request, SearchWork work_in)
      : collection(request.collection.get()),
        parts(request.parts),
        epoch(EpochOf(request)),
        few_rows(request.few_rows),
        work(work_in) {}
  // Returns nullopt for the epoch that is current when the pass begins.
  static std::optional<uint64_t> EpochOf(const SearchRequest& request) {
    if (request.at == nullptr) return std::nullopt;
    return request.at->epoch();
  }
  bool Fits(const SearchRequest& request, SearchWork wanted) const;
  // Returns the predicted time of a pass with this number of the group's queries.
  double PredictUs(double queries) const { return PassUs(*latency, kind, work, queries); }
  static double PassUs(const LatencyModel& latency, PassKind kind, SearchWork work, double queries);
  bool empty() const { return queues[0].empty() && queues[1].empty(); }
  TurnQueue& queue(SearchPriority priority) { return queues[IndexOf(priority)]; }
  const TurnQueue& queue(SearchPriority priority) const { return queues[IndexOf(priority)]; }

  const Collection* const collection;  // alive while a search of the group waits
  const RowParts parts;
  const std::optional<uint64_t> epoch;
  const bool few_rows;
  const SearchWork work;
  std::shared_ptr<LatencyModel> latency;
  PassKind kind;  // covers all searches that came since the group was empty
  std::array<TurnQueue, kPriorities> queues;
};

// All waiting searches. The callers' totals are updated here, because every search enters and
// leaves through this class.
// Not thread-safe.
class PendingQueue {
 public:
  // `accounts` outlives this object.
  explicit PendingQueue(FairQueueAccounts* accounts) : accounts_(accounts) {}

  bool empty() const { return requests_ == 0; }
  int64_t requests() const { return requests_; }
  int64_t bytes() const { return bytes_; }
  // Returns true if a search of this priority waits.
  bool HasWaiting(SearchPriority priority) const { return waiting_[IndexOf(priority)] > 0; }
  // Returns a lower bound of the waiting searches' deadlines.
  TimePoint earliest_deadline() const { return earliest_deadline_; }

  // Returns the group of the request; creates it if it does not exist.
  TicketGroup* GroupOf(const SearchRequest& request, SearchWork work);
  const std::vector<std::unique_ptr<TicketGroup>>& groups() const { return groups_; }
  // Returns the group whose first search has the earliest turn; null if none of this priority
  // waits.
  TicketGroup* First(SearchPriority priority) const;

  void Insert(TicketGroup* group, PendingSearch entry);
  PendingSearch PopFront(TicketGroup* group, SearchPriority priority);
  template <typename Choose, typename Out>
  void TakeFromFront(TicketGroup* group, SearchPriority priority, Choose choose, Out out) {
    const auto remove = [&](PendingSearch& entry, TurnQueue::Decision decision) {
      RemoveFromTotals(entry);
      out(entry, decision);
    };
    group->queue(priority).TakeFromFront(choose, remove);
  }

  // Removes all searches with a deadline at or before `now` and passes them to `dead`; with
  // `cancelled_too`, also the cancelled ones. Cost: visits every waiting search.
  void Sweep(TimePoint now, bool cancelled_too, const std::function<void(PendingSearch&)>& dead);
  // Moves all waiting searches to `all`.
  void Clear(SearchTickets* all);

 private:
  void RemoveFromTotals(const PendingSearch& entry);

  FairQueueAccounts* const accounts_;
  std::vector<std::unique_ptr<TicketGroup>> groups_;
  int64_t requests_ = 0;
  int64_t bytes_ = 0;
  std::array<int64_t, kPriorities> waiting_{};
  uint64_t next_number_ = 0;
  TimePoint earliest_deadline_ = TimePoint::max();
};

}  // namespace nearfield::server

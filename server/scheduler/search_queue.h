// SearchQueue: the bounded queue of searches in front of one engine. It decides admission and
// order.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "server/scheduler/batch_former.h"
#include "server/scheduler/clock.h"
#include "server/scheduler/fair_queue_accounts.h"
#include "server/scheduler/forecast.h"
#include "server/scheduler/latency_model.h"
#include "server/scheduler/pending_queue.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

struct SearchQueueLimits {
  int64_t requests_max = 1024;             // requests that may wait
  int64_t bytes_max = int64_t{256} << 20;  // bytes of waiting queries
  int64_t batch_max = 1024;                // maximum queries in one batch
  // Limit on the sum of reply_bytes_min of a batch with several searches.
  int64_t reply_bytes_max = INT64_MAX;
  // If true, refuse searches that are predicted to miss their deadline or to wait longer than
  // `wait_us_max`.
  bool admission = true;
  int64_t wait_us_max = INT64_MAX;
  // Share s of the requests and bytes that a caller may hold if it is alone: s / (1 - s) times the
  // free part. With several such callers each gets less, and some is left for a new caller.
  double caller_share = 0.8;
  double batch_share = 0.1;          // share of device time for kBatch while both priorities wait
  double read_bytes_per_second = 0;  // of the device; 0: not known
  int64_t k_max = INT64_MAX;         // maximum rows that one scan returns
};

// Thread-safe.
class SearchQueue {
 public:
  // `clock` outlives the queue.
  SearchQueue(const SearchQueueLimits& limits, const Clock* clock);
  ~SearchQueue();

  // Queues the ticket; its `done` will be called. If Push returns an error, `done` is not called.
  // While the engine is idle and nothing waits, no search is refused by prediction.
  // Errors: ResourceExhausted with a retry hint (queue full, caller's share full, deadline would be
  // missed), DeadlineExceeded or Cancelled (already expired or cancelled), Unavailable (closed).
  absl::Status Push(SearchTicket ticket);

  // As Push, but if no pass runs, no other search waits, and the pass of the ticket is short enough
  // for its lent thread, returns the ticket instead of queueing it: the caller runs its pass, then
  // calls RecordPass. Until then Take blocks. Returns no tickets if the ticket was queued.
  absl::StatusOr<SearchTickets> PushOrTake(SearchTicket ticket);

  // Returns tickets that can share one device pass, chosen by BatchFormer. Their pass runs until
  // RecordPass or the next Take. Dead tickets found on the way are answered and dropped. Blocks
  // until a ticket waits, but never waits for a fuller batch. Returns no tickets if the queue is
  // closed.
  SearchTickets Take();
  // As Take, but does not block; also returns no tickets if nothing waits.
  SearchTickets TryTake();
  // Records that the pass of the batch taken last has ended; `complete` if it succeeded.
  void RecordPass(double pass_us, bool complete = true);

  // Answers the tickets whose deadline has passed.
  void AnswerOverdue() ABSL_LOCKS_EXCLUDED(mutex_);
  // Blocks until the deadline of some tickets has passed, then answers them, at most ten
  // milliseconds late. Returns false if the queue is closed.
  bool AwaitOverdue();

  // Refuses new tickets and answers all waiting ones with Unavailable.
  void Close();

  int64_t waiting() const;
  int64_t waiting_bytes() const;

 private:
  // Push, if `taken` is null, or PushOrTake.
  absl::Status Add(SearchTicket ticket, SearchTickets* taken);
  // Returns true if the pass of the entry alone is short enough for its lent thread.
  bool MayRun(const PendingSearch& entry, const LatencyModel& latency) const;
  // Moves the entry to the waiting ones, unless it is refused. Tickets found dead on the way move
  // to `dead`.
  absl::Status Insert(PendingSearch* entry, const std::shared_ptr<LatencyModel>& latency,
                      SearchTickets* dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns an error if the entry does not fit into the queue or into its caller's share.
  absl::Status CheckLimits(const PendingSearch& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As CheckLimits, but first drops dead tickets if the queue may have any.
  absl::Status CheckRoom(const PendingSearch& entry, SearchTickets* dead)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckForecast(const Newcomer& newcomer, const PendingSearch& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the running pass, if any; `pass_us` is set if its time is known.
  void EndPass(std::optional<double> pass_us, bool complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Learn(double pass_us, TimePoint now, bool complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Full() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CallerFull(const FairQueueAccounts::Account& caller) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  double BusyUs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns true if a pass runs and tickets wait.
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SearchTickets TakeFormed(SearchTickets* dead) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(const SearchTickets& dead) const ABSL_LOCKS_EXCLUDED(mutex_);

  const SearchQueueLimits limits_;
  const BatchLimits batch_limits_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  CondVar arrived_;
  CondVar overdue_;
  LatencyModels model_ ABSL_GUARDED_BY(mutex_);
  FairQueueAccounts accounts_ ABSL_GUARDED_BY(mutex_);
  PendingQueue pending_ ABSL_GUARDED_BY(mutex_);
  BatchFormer former_ ABSL_GUARDED_BY(mutex_);
  FormedBatch formed_ ABSL_GUARDED_BY(mutex_);  // the running batch, without its tickets
  std::optional<RunningPass> running_ ABSL_GUARDED_BY(mutex_);
  bool caller_runs_ ABSL_GUARDED_BY(mutex_) = false;  // the running pass is one of PushOrTake
  TimePoint swept_ ABSL_GUARDED_BY(mutex_);
  bool watcher_asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Queues the ticket and blocks until it is answered; sets its `done`. Errors: as Push, and those of
// the search.
absl::StatusOr<SearchReply> SearchAndWait(SearchQueue* queue, SearchTicket ticket);

// Returns DeadlineExceeded or Cancelled if no caller waits for the ticket any more, else OK.
absl::Status CheckAlive(const SearchTicket& ticket, TimePoint now);

}  // namespace nearfield::server

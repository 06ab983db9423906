// SearchQueue: the bounded queue of searches in front of one engine. It decides admission and
// order.
#ifndef NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_
#define NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "server/batching/batch_former.h"
#include "server/batching/caller_table.h"
#include "server/batching/clock.h"
#include "server/batching/forecast.h"
#include "server/batching/memory_ledger.h"
#include "server/batching/pass_times.h"
#include "server/batching/search_request.h"
#include "server/batching/ticket_lines.h"

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

  // Returns tickets that can share one device pass, chosen by BatchFormer. Their pass runs until
  // NotePass or the next Take. Dead tickets found on the way are answered and dropped. Blocks until
  // a ticket waits, but never waits for a fuller batch. Returns no tickets if the queue is closed.
  SearchTickets Take();
  // As Take, but does not block; also returns no tickets if nothing waits.
  SearchTickets TryTake();
  // Records that the pass of the batch taken last has ended; `complete` if it succeeded.
  void NotePass(double pass_us, bool complete = true);

  // Answers the tickets whose deadline has passed.
  void AnswerOverdue();
  // Blocks until the deadline of some tickets has passed, then answers them, at most ten
  // milliseconds late. Returns false if the queue is closed.
  bool AwaitOverdue();

  // Refuses new tickets and answers all waiting ones with Unavailable.
  void Close();

  int64_t waiting() const;
  int64_t waiting_bytes() const;

 private:
  // The following functions require mutex_. TimesOf may temporarily release `lock` when it sees a
  // collection for the first time.
  std::shared_ptr<PassTimes> TimesOf(const SearchTicket& ticket,
                                     std::unique_lock<std::mutex>* lock);
  absl::Status CheckRoom(const LineEntry& entry, SearchTickets* dead);
  absl::Status CheckForecast(const Newcomer& newcomer, const LineEntry& entry);
  // Ends the running pass, if any; `pass_us` is set if its time is known.
  void EndPass(std::optional<double> pass_us, bool complete);
  void Learn(double pass_us, TimePoint now, bool complete);
  absl::Status Full() const;
  absl::Status CallerFull(const CallerTable::Caller& caller) const;
  double BusyUs() const;
  SearchTickets TakeFormed(SearchTickets* dead);
  // Requires: mutex_ is not held.
  void Answer(const SearchTickets& dead) const;

  const SearchQueueLimits limits_;
  const BatchLimits batch_limits_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable overdue_;
  PassModel model_;
  CallerTable callers_;
  TicketLines lines_;
  BatchFormer former_;
  FormedBatch formed_;  // the running batch, without its tickets
  std::optional<RunningPass> running_;
  TimePoint swept_;
  bool watcher_asleep_ = false;
  bool closed_ = false;
};

// Queues the ticket and blocks until it is answered; sets its `done`. Errors: as Push, and those of
// the search.
absl::StatusOr<SearchReply> SearchAndWait(SearchQueue* queue, SearchTicket ticket);

// Returns DeadlineExceeded or Cancelled if no caller waits for the ticket any more, else OK.
absl::Status Wanted(const SearchTicket& ticket, TimePoint now);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_

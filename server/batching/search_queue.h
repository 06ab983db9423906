// The bounded queue of searches in front of one engine: who may wait, and whose turn it is.
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
  int64_t requests_max = 1024;             // that wait
  int64_t bytes_max = int64_t{256} << 20;  // of queries that wait
  int64_t batch_max = 1024;                // queries in one batch
  int64_t reply_bytes_max = INT64_MAX;     // sum of reply_bytes_min over one batch of several
  // Refuse a search that is predicted to miss its deadline, or to wait longer than this.
  bool admission = true;
  int64_t wait_us_max = INT64_MAX;
  // Of the places and bytes, what a caller that is alone may hold: s / (1 - s) times what is free.
  // With several such callers each gets less, and some is left for a new one.
  double caller_share = 0.8;
  double batch_share = 0.1;          // of device time that kBatch gets while both priorities wait
  double read_bytes_per_second = 0;  // of the device; 0: not known
  int64_t k_max = INT64_MAX;         // rows that one scan finds
};

// Thread-safe.
class SearchQueue {
 public:
  // `clock` outlives the queue.
  SearchQueue(const SearchQueueLimits& limits, const Clock* clock);
  ~SearchQueue();

  // Takes the ticket; its `done` will be called. Where this is refused, `done` is not called.
  // Nothing is refused by prediction while the engine is idle and nothing waits.
  // Errors: ResourceExhausted with a retry hint (full; the caller's share is full; the deadline
  // would be missed), DeadlineExceeded or Cancelled (dead on arrival), Unavailable (closed).
  absl::Status Push(SearchTicket ticket);

  // Tickets that can share one device pass, chosen by BatchFormer; they run from now on, until
  // NotePass or the next Take. Dead tickets met on the way are answered and dropped. Waits for a
  // ticket, never for a fuller batch. Empty: the queue is closed.
  SearchTickets Take();
  // The same without waiting; empty also where nothing waits.
  SearchTickets TryTake();
  // The pass of the batch taken last has ended; `complete` where it answered.
  void NotePass(double pass_us, bool complete = true);

  // Answers those whose deadline has passed.
  void AnswerOverdue();
  // Waits until there are some, and answers them; false: the queue is closed. At most ten
  // milliseconds late.
  bool AwaitOverdue();

  // Refuses new tickets and answers all that wait with Unavailable.
  void Close();

  int64_t waiting() const;
  int64_t waiting_bytes() const;

 private:
  // Those that follow require mutex_. This one gives `lock` free where the collection is new.
  std::shared_ptr<PassTimes> TimesOf(const SearchTicket& ticket,
                                     std::unique_lock<std::mutex>* lock);
  absl::Status CheckRoom(const LineEntry& entry, SearchTickets* dead);
  absl::Status CheckForecast(const Newcomer& newcomer, const LineEntry& entry);
  // The pass that runs, if any, has ended; its time where it is known.
  void EndPass(std::optional<double> pass_us, bool complete);
  void Learn(double pass_us, TimePoint now, bool complete);
  absl::Status Full() const;
  absl::Status CallerFull(const CallerTable::Caller& caller) const;
  double BusyUs() const;
  SearchTickets TakeFormed(SearchTickets* dead);
  // Not this one.
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
  FormedBatch formed_;  // the one that runs, without its tickets
  std::optional<RunningPass> running_;
  TimePoint swept_;
  bool watcher_asleep_ = false;
  bool closed_ = false;
};

// Queues the ticket and blocks until it is answered; its `done` is set here. Errors: as Push, and
// those of the search.
absl::StatusOr<SearchReply> SearchAndWait(SearchQueue* queue, SearchTicket ticket);

// DeadlineExceeded or Cancelled where nobody waits for the ticket any more, else OK.
absl::Status Wanted(const SearchTicket& ticket, TimePoint now);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_

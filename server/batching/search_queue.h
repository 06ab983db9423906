// The bounded queue of searches in front of one engine, and the former of its batches.
#ifndef NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_
#define NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_

#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "server/batching/clock.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

struct SearchQueueLimits {
  int64_t requests_max = 1024;             // that wait
  int64_t bytes_max = int64_t{256} << 20;  // of queries that wait
  int64_t batch_max = 1024;                // queries in one batch
  int64_t reply_bytes_max = INT64_MAX;     // sum of reply_bytes_min over one batch of several
};

// Thread-safe.
class SearchQueue {
 public:
  // `clock` outlives the queue.
  SearchQueue(const SearchQueueLimits& limits, const Clock* clock);
  ~SearchQueue();

  // Takes the ticket; its `done` will be called. Where this is refused, `done` is not called.
  // Errors: ResourceExhausted with a retry hint (full), DeadlineExceeded or Cancelled (dead on
  // arrival), Unavailable (closed).
  absl::Status Push(SearchTicket ticket);

  // Tickets that can share one device pass: the oldest that is still wanted and, in order, those
  // behind it for the same collection and row parts, up to batch_max queries and
  // reply_bytes_max. Dead tickets met on
  // the way are answered and dropped. Waits for a ticket, never for a fuller batch. Empty: the
  // queue is closed.
  std::vector<SearchTicket> Take();
  // The same without waiting; empty also where nothing waits.
  std::vector<SearchTicket> TryTake();

  // Refuses new tickets and answers all that wait with Unavailable.
  void Close();

  // How long one pass took lately; sizes the retry hint.
  void NotePass(int64_t pass_us);

  int64_t waiting() const;

 private:
  using Tickets = std::list<SearchTicket>;
  // Moves tickets that nobody waits for to `dead`. Requires mutex_.
  void SweepDead(Tickets* dead);
  // Moves a batch to `batch` and what is dead to `dead`. Requires mutex_.
  void FormBatch(std::vector<SearchTicket>* batch, Tickets* dead);
  absl::Status Full() const;

  const SearchQueueLimits limits_;
  const Clock* const clock_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  Tickets tickets_;
  int64_t bytes_ = 0;
  int64_t pass_us_ = 1000;
  bool closed_ = false;
};

// DeadlineExceeded or Cancelled where nobody waits for the ticket any more, else OK.
absl::Status Wanted(const SearchTicket& ticket, TimePoint now);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_SEARCH_QUEUE_H_

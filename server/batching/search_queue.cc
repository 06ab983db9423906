#include "server/batching/search_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/batching/retry_hint.h"

namespace nearfield::server {
namespace {

constexpr int64_t kRetryMsMin = 10;
constexpr int64_t kRetryMsMax = 5000;
constexpr int64_t kClosedRetryMs = 1000;

absl::Status Closed() {
  return WithRetryAfter(absl::UnavailableError("the server is shutting down"), kClosedRetryMs);
}

bool CanShare(const SearchRequest& a, const SearchRequest& b) {
  return a.collection == b.collection && a.parts.vectors == b.parts.vectors &&
         a.parts.payloads == b.parts.payloads && a.parts.bytes_max == b.parts.bytes_max;
}

}  // namespace

absl::Status Wanted(const SearchTicket& ticket, TimePoint now) {
  // The deadline first: the transport cancels a call whose deadline passed.
  if (ticket.deadline.has_value() && now >= *ticket.deadline) {
    return absl::DeadlineExceededError(
        "the deadline passed before the search was started on the device");
  }
  if (ticket.cancelled != nullptr && ticket.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the caller cancelled the search");
  }
  return absl::OkStatus();
}

SearchQueue::SearchQueue(const SearchQueueLimits& limits, const Clock* clock)
    : limits_(limits), clock_(clock) {}

SearchQueue::~SearchQueue() { Close(); }

absl::Status SearchQueue::Push(SearchTicket ticket) {
  ticket.queued = clock_->Now();
  ABSL_RETURN_IF_ERROR(Wanted(ticket, ticket.queued));
  const int64_t bytes = ticket.request.bytes();
  Tickets dead;
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    const auto full = [&] {
      return static_cast<int64_t>(tickets_.size()) >= limits_.requests_max ||
             (!tickets_.empty() && bytes_ + bytes > limits_.bytes_max);
    };
    if (closed_) return Closed();
    if (full()) SweepDead(&dead);
    if (full()) {
      status = Full();
    } else {
      bytes_ += bytes;
      tickets_.push_back(std::move(ticket));
    }
  }
  arrived_.notify_one();
  for (SearchTicket& each : dead) each.done(Wanted(each, clock_->Now()));
  return status;
}

void SearchQueue::SweepDead(Tickets* dead) {
  const TimePoint now = clock_->Now();
  for (auto it = tickets_.begin(); it != tickets_.end();) {
    const auto next = std::next(it);
    if (!Wanted(*it, now).ok()) {
      bytes_ -= it->request.bytes();
      dead->splice(dead->end(), tickets_, it);
    }
    it = next;
  }
}

void SearchQueue::FormBatch(std::vector<SearchTicket>* batch, Tickets* dead) {
  const TimePoint now = clock_->Now();
  int64_t queries = 0;
  int64_t reply_bytes = 0;
  for (auto it = tickets_.begin(); it != tickets_.end() && queries < limits_.batch_max;) {
    const auto next = std::next(it);
    const auto queries_here = static_cast<int64_t>(it->request.queries.size());
    const int64_t reply_bytes_here = it->request.reply_bytes_min;
    if (!Wanted(*it, now).ok()) {
      bytes_ -= it->request.bytes();
      dead->splice(dead->end(), tickets_, it);
    } else if (batch->empty() || (CanShare(batch->front().request, it->request) &&
                                  queries + queries_here <= limits_.batch_max &&
                                  reply_bytes_here <= limits_.reply_bytes_max - reply_bytes)) {
      bytes_ -= it->request.bytes();
      queries += queries_here;
      reply_bytes += reply_bytes_here;
      batch->push_back(std::move(*it));
      tickets_.erase(it);
    }
    it = next;
  }
}

std::vector<SearchTicket> SearchQueue::Take() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [&] { return closed_ || !tickets_.empty(); });
      if (closed_) return {};
    }
    std::vector<SearchTicket> batch = TryTake();
    if (!batch.empty()) return batch;
  }
}

std::vector<SearchTicket> SearchQueue::TryTake() {
  std::vector<SearchTicket> batch;
  Tickets dead;
  {
    const std::lock_guard lock(mutex_);
    FormBatch(&batch, &dead);
  }
  for (SearchTicket& each : dead) each.done(Wanted(each, clock_->Now()));
  return batch;
}

void SearchQueue::Close() {
  Tickets left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    bytes_ = 0;
    left.swap(tickets_);
  }
  arrived_.notify_all();
  for (SearchTicket& each : left) each.done(Closed());
}

void SearchQueue::NotePass(int64_t pass_us) {
  const std::lock_guard lock(mutex_);
  pass_us_ = (3 * pass_us_ + pass_us) / 4;
}

int64_t SearchQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(tickets_.size());
}

absl::Status SearchQueue::Full() const {
  // Half of what waits will be served by then, if nothing shares a pass.
  const auto requests = static_cast<int64_t>(tickets_.size());
  const int64_t retry_ms = std::clamp(requests * pass_us_ / 2000, kRetryMsMin, kRetryMsMax);
  return WithRetryAfter(
      absl::ResourceExhaustedError(absl::StrCat(
          "the search queue is full: ", requests, " requests with ", bytes_,
          " bytes wait, the limits are ", limits_.requests_max, " and ", limits_.bytes_max)),
      retry_ms);
}

}  // namespace nearfield::server

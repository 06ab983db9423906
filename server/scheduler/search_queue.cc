#include "server/scheduler/search_queue.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/scheduler/refusal.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

// Maximum delay until an expired deadline is answered, and minimum interval between scans of a full
// queue for cancelled searches.
constexpr std::chrono::milliseconds kTick(10);

// Fraction added to a forecast: half of all passes take longer than their median.
constexpr double kCaution = 0.15;

PendingSearch EntryOf(SearchTicket ticket) {
  PendingSearch entry;
  entry.queries = static_cast<int64_t>(ticket.request.queries.size());
  for (const Query& query : ticket.request.queries) {
    const int64_t k = std::min<int64_t>(query.skip + query.k, INT32_MAX);
    entry.k_max = std::max(entry.k_max, static_cast<int32_t>(k));
  }
  entry.bytes = ticket.request.bytes();
  entry.reply_bytes = ticket.request.reply_bytes_min;
  entry.deadline = ticket.deadline.value_or(TimePoint::max());
  entry.ticket = std::make_unique<SearchTicket>(std::move(ticket));
  return entry;
}

PassKind KindOf(const PendingSearch& entry) {
  const SearchRequest& request = entry.ticket->request;
  return {.copies = request.parts.vectors || request.parts.payloads,
          .few_rows = request.few_rows,
          .k_max = entry.k_max};
}

// Returns the device time to charge for the search: its share of a pass and its own scans.
double CostUs(const PendingSearch& entry, const LatencyModel& latency, SearchWork work) {
  const PassKind kind = KindOf(entry);
  // If nothing is known, charge by the number of queries.
  const double known_us = latency.QueryUs(kind);
  const double query_us = known_us > 0 ? known_us : 1;
  const double scan_us = std::max(query_us, latency.PredictUs(kind, 1));
  return static_cast<double>(entry.queries) *
         ((work.shared ? query_us : 1) + static_cast<double>(work.own_scans) * scan_us);
}

}  // namespace

absl::Status CheckAlive(const SearchTicket& ticket, TimePoint now) {
  // Check the deadline first: the transport cancels a call whose deadline passed.
  if (ticket.deadline.has_value() && now >= *ticket.deadline) {
    return absl::DeadlineExceededError(
        "the deadline passed before the search was started on the device");
  }
  if (ticket.cancelled != nullptr && ticket.cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the caller cancelled the search");
  }
  return absl::OkStatus();
}

absl::StatusOr<SearchReply> SearchAndWait(SearchQueue* queue, SearchTicket ticket) {
  auto answer = std::make_shared<std::promise<absl::StatusOr<SearchReply>>>();
  std::future<absl::StatusOr<SearchReply>> ready = answer->get_future();
  ticket.done = [answer](absl::StatusOr<SearchReply> reply) {
    answer->set_value(std::move(reply));
  };
  ABSL_RETURN_IF_ERROR(queue->Push(std::move(ticket)));
  return ready.get();
}

SearchQueue::SearchQueue(const SearchQueueLimits& limits, const Clock* clock)
    : limits_(limits),
      batch_limits_{.batch_max = limits.batch_max,
                    .reply_bytes_max = limits.reply_bytes_max,
                    .batch_share = limits.batch_share},
      clock_(clock),
      pending_(&accounts_),
      former_(batch_limits_, &pending_, &accounts_) {}

SearchQueue::~SearchQueue() { Close(); }

absl::Status SearchQueue::Push(SearchTicket ticket) { return Add(std::move(ticket), nullptr); }

absl::StatusOr<SearchTickets> SearchQueue::PushOrTake(SearchTicket ticket) {
  SearchTickets taken;
  ABSL_RETURN_IF_ERROR(Add(std::move(ticket), &taken));
  return taken;
}

absl::Status SearchQueue::Add(SearchTicket ticket, SearchTickets* taken) {
  ticket.queued = clock_->Now();
  ABSL_RETURN_IF_ERROR(CheckAlive(ticket, ticket.queued));
  PendingSearch entry = EntryOf(std::move(ticket));
  const std::shared_ptr<const Collection>& collection = entry.ticket->request.collection;
  SearchTickets dead;
  SearchTickets expired;
  absl::Status status;
  bool wake_taker = false;
  bool wake_watcher = false;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<LatencyModel> latency = model_.Find(collection);
    if (latency == nullptr) {
      // The collection may be busy with a commit. Release the lock, so that no other search waits
      // for it.
      lock.Unlock();
      const double floor_us = PassFloorUs(*collection, limits_.read_bytes_per_second);
      lock.Lock();
      latency = model_.Find(collection);
      if (latency == nullptr) latency = model_.Add(collection, floor_us);
    }
    if (closed_) return Closed();
    const bool may_take =
        taken != nullptr && !running_.has_value() && pending_.empty() && MayRun(entry, *latency);
    status = Insert(&entry, latency, &dead);
    wake_taker = status.ok();
    wake_watcher = status.ok() && watcher_asleep_ && running_.has_value();
    if (status.ok() && may_take) {
      try {
        *taken = TakeFormed(&expired);
      } catch (const std::bad_alloc&) {  // it is in the queue, for the engine thread
      }
      caller_runs_ = !taken->empty();
      wake_taker = !caller_runs_;
    }
  }
  if (wake_taker) arrived_.NotifyOne();
  if (wake_watcher) overdue_.NotifyOne();
  if (!dead.empty()) Answer(dead);
  if (!expired.empty()) Answer(expired);
  return status;
}

bool SearchQueue::MayRun(const PendingSearch& entry, const LatencyModel& latency) const {
  const SearchWork work = SearchWork::Of(entry.ticket->request, limits_.k_max);
  const auto queries = static_cast<double>(entry.queries);
  return TicketGroup::PassUs(latency, KindOf(entry), work, queries) <=
         entry.ticket->lent_thread.pass_us_max;
}

absl::Status SearchQueue::Insert(PendingSearch* entry, const std::shared_ptr<LatencyModel>& latency,
                                 SearchTickets* dead) {
  entry->caller = accounts_.Find(entry->ticket->caller);
  ABSL_RETURN_IF_ERROR(CheckRoom(*entry, dead));
  const SearchPriority priority = entry->ticket->priority;
  const SearchWork work = SearchWork::Of(entry->ticket->request, limits_.k_max);
  TicketGroup* const group = pending_.GroupOf(entry->ticket->request, work);
  group->latency = latency;
  entry->cost_us = CostUs(*entry, *latency, work);
  entry->start = accounts_.StartOf(*entry->caller, priority);
  ABSL_RETURN_IF_ERROR(CheckForecast(
      {.group = group, .priority = priority, .start = entry->start, .queries = entry->queries},
      *entry));
  accounts_.Book(entry->caller, priority, entry->start, entry->cost_us);
  pending_.Insert(group, std::move(*entry));
  return absl::OkStatus();
}

absl::Status SearchQueue::CheckLimits(const PendingSearch& entry) const {
  if (pending_.requests() >= limits_.requests_max ||
      (!pending_.empty() && pending_.bytes() + entry.bytes > limits_.bytes_max)) {
    return Full();
  }
  const FairQueueAccounts::Account& caller = *entry.caller;
  const double times_free = TimesFree(limits_.caller_share);
  const auto free = static_cast<double>(limits_.requests_max - pending_.requests());
  const auto bytes_free = static_cast<double>(limits_.bytes_max - pending_.bytes());
  if (caller.requests > 0 &&
      (static_cast<double>(caller.requests + 1) > times_free * free ||
       static_cast<double>(caller.bytes + entry.bytes) > times_free * bytes_free)) {
    return CallerFull(caller);
  }
  return absl::OkStatus();
}

absl::Status SearchQueue::CheckRoom(const PendingSearch& entry, SearchTickets* dead) {
  absl::Status status = CheckLimits(entry);
  const TimePoint now = entry.ticket->queued;
  if (status.ok() || (now < pending_.earliest_deadline() && now - swept_ < kTick)) return status;
  swept_ = now;
  pending_.Sweep(now, /*cancelled_too=*/true,
                 [&](PendingSearch& each) { dead->push_back(std::move(each.ticket)); });
  return CheckLimits(entry);
}

absl::Status SearchQueue::CheckForecast(const Newcomer& newcomer, const PendingSearch& entry) {
  if (!limits_.admission || (pending_.empty() && !running_.has_value())) return absl::OkStatus();
  const SearchTicket& ticket = *entry.ticket;
  const TimePoint now = ticket.queued;
  Forecast forecast = Predict(pending_, batch_limits_, newcomer);
  forecast.wait_us =
      std::max(forecast.wait_us, accounts_.BacklogUs(*entry.caller, newcomer.priority, now));
  if (running_.has_value()) forecast.wait_us += RemainingUs(*running_, now);
  forecast.wait_us += kCaution * forecast.total_us();
  const LatenessLimits limits = {.now = now,
                                 .deadline = ticket.deadline,
                                 .wait_us_max = static_cast<double>(limits_.wait_us_max)};
  absl::Status status = CheckLateness(forecast, limits);
  if (status.ok()) return status;
  LatencyModel* const latency = newcomer.group->latency.get();
  if (!latency->IsFresh(now) && latency->TakeProbe(now)) return absl::OkStatus();
  return status;
}

SearchTickets SearchQueue::TakeFormed(SearchTickets* dead) {
  const TimePoint now = clock_->Now();
  EndPass(std::nullopt, false);
  formed_ = former_.Form(now);
  *dead = std::move(formed_.dead);
  SearchTickets tickets = std::move(formed_.tickets);
  if (!tickets.empty()) {
    running_ = RunningPass{
        .begin = now,
        .predicted_us = TicketGroup::PassUs(*formed_.latency, formed_.kind, formed_.work,
                                            static_cast<double>(formed_.queries))};
  }
  return tickets;
}

SearchTickets SearchQueue::Take() {
  while (true) {
    SearchTickets dead;
    SearchTickets tickets;
    bool wake_watcher = false;
    {
      MutexLock lock(mutex_);
      if (!closed_ && pending_.empty() && !caller_runs_) EndPass(std::nullopt, false);
      while (!closed_ && (pending_.empty() || caller_runs_)) arrived_.Wait(lock);
      if (closed_) return {};
      tickets = TakeFormed(&dead);
      wake_watcher = watcher_asleep_ && !pending_.empty();
    }
    if (wake_watcher) overdue_.NotifyOne();
    if (!dead.empty()) Answer(dead);
    if (!tickets.empty()) return tickets;
  }
}

SearchTickets SearchQueue::TryTake() {
  SearchTickets dead;
  SearchTickets tickets;
  {
    const MutexLock lock(mutex_);
    tickets = TakeFormed(&dead);
  }
  Answer(dead);
  return tickets;
}

void SearchQueue::RecordPass(double pass_us, bool complete) {
  bool wake_taker = false;
  {
    const MutexLock lock(mutex_);
    EndPass(pass_us, complete);
    wake_taker = std::exchange(caller_runs_, false) && !pending_.empty();
  }
  if (wake_taker) arrived_.NotifyOne();
}

// Learns from the time of a pass. If its searches have scans of their own, the scan that they share
// is counted as the scan of one query.
void SearchQueue::Learn(double pass_us, TimePoint now, bool complete) {
  const SearchWork& work = formed_.work;
  if (work.own_scans == 0) {
    if (work.shared) formed_.latency->Record(formed_.kind, formed_.queries, pass_us, now, complete);
    return;
  }
  const int64_t scans = work.own_scans * formed_.queries + (work.shared ? 1 : 0);
  formed_.latency->Record(formed_.kind, 1, pass_us / static_cast<double>(scans), now, complete);
}

void SearchQueue::EndPass(std::optional<double> pass_us, bool complete) {
  if (!running_.has_value()) return;
  const TimePoint now = clock_->Now();
  if (pass_us.has_value()) Learn(*pass_us, now, complete);
  former_.RecordPass(&formed_, pass_us.value_or(0), now);
  running_.reset();
  if (pending_.empty()) accounts_.Forget();
}

void SearchQueue::AnswerOverdue() {
  SearchTickets dead;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_->Now();
    if (now >= pending_.earliest_deadline()) {
      pending_.Sweep(now, /*cancelled_too=*/false,
                     [&](PendingSearch& each) { dead.push_back(std::move(each.ticket)); });
    }
  }
  Answer(dead);
}

bool SearchQueue::AwaitOverdue() {
  {
    MutexLock lock(mutex_);
    while (!closed_ && clock_->Now() < pending_.earliest_deadline()) {
      // Sleep only after a tick without work, so that Push seldom has to wake this thread.
      overdue_.WaitFor(lock, kTick);
      if (IsBusy() || closed_) continue;
      watcher_asleep_ = true;
      while (!closed_ && !IsBusy()) overdue_.Wait(lock);
      watcher_asleep_ = false;
    }
    if (closed_) return false;
  }
  AnswerOverdue();
  return true;
}

void SearchQueue::Close() {
  SearchTickets left;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    pending_.Clear(&left);
  }
  arrived_.NotifyAll();
  overdue_.NotifyAll();
  for (const auto& each : left) each->done(Closed());
}

void SearchQueue::Answer(const SearchTickets& dead) const {
  for (const auto& each : dead) {
    each->done(CheckAlive(*each, clock_->Now()));
  }
}

int64_t SearchQueue::waiting() const {
  const MutexLock lock(mutex_);
  return pending_.requests();
}

int64_t SearchQueue::waiting_bytes() const {
  const MutexLock lock(mutex_);
  return pending_.bytes();
}

bool SearchQueue::IsBusy() const { return running_.has_value() && !pending_.empty(); }

double SearchQueue::BusyUs() const {
  const double running_us = running_.has_value() ? RemainingUs(*running_, clock_->Now()) : 0;
  return running_us + DrainUs(pending_, batch_limits_);
}

absl::Status SearchQueue::Full() const {
  // About half of the waiting searches are served by then.
  return WithReason(
      Overloaded(absl::StrCat("the search queue is full: ", pending_.requests(), " requests with ",
                              pending_.bytes(), " bytes wait, the limits are ",
                              limits_.requests_max, " and ", limits_.bytes_max),
                 BusyUs() / 2),
      pending_.requests() >= limits_.requests_max ? "queue_requests_max" : "queue_bytes_max");
}

absl::Status SearchQueue::CallerFull(const FairQueueAccounts::Account& caller) const {
  return WithReason(
      Overloaded(absl::StrCat("this caller's share of the search queue is full: ", caller.requests,
                              " of its requests with ", caller.bytes, " bytes wait, of ",
                              pending_.requests(), " with ", pending_.bytes(),
                              " in all; one caller may hold ", limits_.caller_share * 100, "% of ",
                              limits_.requests_max, " and ", limits_.bytes_max,
                              ", less while others wait"),
                 BusyUs() / 2),
      "caller_share_percent");
}

}  // namespace nearfield::server

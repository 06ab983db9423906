// QueueFixture: a search queue over a device that exists only on a fake clock. A pass takes a known
// time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/scheduler/batch_runner.h"
#include "server/scheduler/search_queue.h"
#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {

// One search of a test.
struct Ask {
  std::string caller = "any caller";
  std::shared_ptr<Collection> collection;
  int queries = 1;
  SearchPriority priority = SearchPriority::kInteractive;
  double deadline_us = 0;  // from now; 0: none
  int64_t bytes = 0;       // of its queries, in addition to the first few
  int64_t skip = 0;
  std::shared_ptr<const RowFilter> filter = nullptr;
  bool few_rows = false;
  std::shared_ptr<ResultPageCache> page_cache = nullptr;
};

// Durations of a pass over one collection.
struct PassTime {
  double pass_us = 1000;
  double query_us = 0;
  double few_rows_us = 0;
};

class QueueFixture : public ::testing::Test {
 protected:
  struct Waiter {
    Ask ask;
    absl::Status refusal;
    int answers = 0;
    absl::Status status;
    TimePoint deadline = TimePoint::max();
    TimePoint answered;
    CancelFlag cancelled;
  };

  // Destroy the queue first: it answers waiting searches through the other members.
  ~QueueFixture() override { queue_.reset(); }

  void Start(const SearchQueueLimits& limits) {
    k_max_ = limits.k_max;
    queue_ = std::make_unique<SearchQueue>(limits, &clock_);
  }

  std::shared_ptr<Collection> NewCollection(PassTime time = {}) {
    std::shared_ptr<Collection> collection = *engine_->CreateCollection({.dim = 2});
    times_[collection.get()] = time;
    return collection;
  }

  // Returns the number of the waiter.
  int Push(const Ask& ask) {
    const int number = static_cast<int>(waiters_.size());
    waiters_.push_back(std::make_unique<Waiter>());
    Waiter& waiter = *waiters_.back();
    waiter.ask = ask;
    waiter.cancelled = MakeCancelFlag();
    SearchTicket ticket;
    ticket.request.collection = ask.collection;
    ticket.request.values.resize(static_cast<size_t>(2 + ask.bytes / 4));
    Query query;
    query.vector = absl::MakeConstSpan(ticket.request.values).subspan(0, 2);
    query.skip = ask.skip;
    query.filter = ask.filter;
    query.page_cache = ask.page_cache;
    ticket.request.few_rows = ask.few_rows;
    ticket.request.queries.assign(static_cast<size_t>(ask.queries), query);
    ticket.caller = ask.caller;
    ticket.priority = ask.priority;
    ticket.cancelled = waiter.cancelled;
    if (ask.deadline_us > 0) {
      waiter.deadline =
          clock_.Now() + std::chrono::microseconds(static_cast<int64_t>(ask.deadline_us));
      ticket.deadline = waiter.deadline;
    }
    ticket.done = [this, number](const absl::StatusOr<SearchReply>& reply) {
      Waiter& answered = *waiters_[static_cast<size_t>(number)];
      ++answered.answers;
      answered.status = reply.status();
      answered.answered = clock_.Now();
      numbers_.push_back(number);
    };
    numbers_of_[ticket.cancelled.get()] = number;
    waiter.refusal = queue_->Push(std::move(ticket));
    return number;
  }

  absl::Status TryPush(const Ask& ask) { return at(Push(ask)).refusal; }
  Waiter& at(int number) { return *waiters_[static_cast<size_t>(number)]; }

  // Takes the next batch, on which the device then works. Returns the numbers of its
  // waiters.
  std::vector<int> Begin() {
    running_ = queue_->TryTake();
    std::vector<int> numbers;
    for (const auto& ticket : running_) numbers.push_back(numbers_of_.at(ticket->cancelled.get()));
    return numbers;
  }
  double RunningUs() const {
    const SearchRequest& request = running_.front()->request;
    const PassTime& time = times_.at(request.collection.get());
    if (request.few_rows) return time.few_rows_us;
    const SearchWork work = SearchWork::Of(request, k_max_);
    const auto queries = static_cast<double>(RunningQueries());
    return (work.shared ? time.pass_us + time.query_us * queries : 0) +
           static_cast<double>(work.own_scans) * queries * (time.pass_us + time.query_us);
  }
  int64_t RunningQueries() const {
    int64_t queries = 0;
    for (const auto& ticket : running_) queries += std::ssize(ticket->request.queries);
    return queries;
  }
  // Ends the running pass, after its planned time or after `us`, and answers its waiters.
  void End(double us = -1) {
    if (running_.empty()) return;
    const double took = us < 0 ? RunningUs() : us;
    clock_.Advance(took);
    EndNow(took);
  }
  // As End, but the clock has been advanced already.
  void EndNow(double took) {
    if (running_.empty()) return;
    Pass pass;
    pass.result.emplace().queries.resize(static_cast<size_t>(RunningQueries()));
    pass.tickets = std::exchange(running_, {});
    queue_->RecordPass(took);
    AnswerPass(clock_, std::move(pass));
  }
  std::vector<int> RunOne() {
    std::vector<int> numbers = Begin();
    End();
    return numbers;
  }
  // Runs passes with this number of queries, so that the queue learns their time.
  void Learn(const std::shared_ptr<Collection>& collection, int queries, int passes = 5) {
    for (int i = 0; i < passes; ++i) {
      Push({.caller = "teacher", .collection = collection, .queries = queries});
      RunOne();
    }
  }

  // Returns a collection whose passes take this time, which the queue has learned.
  std::shared_ptr<Collection> LearnedCollection(PassTime time, int queries = 1) {
    const auto collection = NewCollection(time);
    Learn(collection, queries);
    return collection;
  }
  // Begins a pass of one search.
  void Occupy(const std::shared_ptr<Collection>& collection) {
    Push({.collection = collection});
    Begin();
  }

  PassBase Base(const Clock& clock) {
    return {.engine = engine_.get(), .clock = &clock, .counter = &counter_};
  }

  int64_t k_max_ = 0;
  FakeClock clock_;
  PassCounter counter_;
  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  std::unique_ptr<Engine> engine_ = testing::MakeScriptedEngine(script_);
  std::map<const Collection*, PassTime> times_;
  std::unique_ptr<SearchQueue> queue_;
  std::vector<std::unique_ptr<Waiter>> waiters_;
  std::map<const void*, int> numbers_of_;
  std::vector<int> numbers_;  // in the order of their answers
  SearchTickets running_;
};

}  // namespace nearfield::server

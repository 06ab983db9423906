// Tests invariants under random schedules: every search is answered exactly once or refused, no
// pass contains searches that it must not, and answers do not depend on the other searches of a
// pass.
#include <atomic>
#include <future>
#include <random>
#include <set>
#include <thread>
#include <variant>

#include "server/scheduler/engine_thread.h"
#include "tests/server/queue_fixture.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

constexpr int64_t kBatchMax = 24;
constexpr int64_t kRequestsMax = 60;

class SearchQueueModelTest : public QueueFixture {
 protected:
  // Returns a search with one query.
  static SearchTicket TicketFor(const std::shared_ptr<Collection>& collection,
                                std::vector<float> values = {1, 0}) {
    SearchTicket ticket;
    ticket.request.collection = collection;
    ticket.request.values = std::move(values);
    ticket.request.queries.resize(1);
    ticket.request.queries[0].vector = ticket.request.values;
    return ticket;
  }
  int Draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }

  void PushAny(const std::vector<std::shared_ptr<Collection>>& collections) {
    Ask ask = {.caller = "caller " + std::to_string(Draw(6) * Draw(6)),
               .collection = collections[static_cast<size_t>(Draw(3))],
               .queries = Draw(4) == 0 ? 1 + Draw(30) : 1,
               .priority = Draw(3) == 0 ? SearchPriority::kBatch : SearchPriority::kInteractive};
    if (Draw(2) == 0) ask.deadline_us = 1 + Draw(200000);
    const int number = Push(ask);
    if (at(number).refusal.ok()) {
      waiting_.insert(number);
    } else {
      EXPECT_THAT(at(number).refusal, StatusIs(kResourceExhausted));
    }
  }

  // Checks that searches answered without a pass were expired or cancelled.
  void CheckDropped() {
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      const Waiter& waiter = at(*it);
      if (waiter.answers == 0) {
        ++it;
        continue;
      }
      const bool late = waiter.deadline <= clock_.Now();
      EXPECT_THAT(waiter.status, StatusIs(late ? kDeadlineExceeded : kCancelled));
      EXPECT_TRUE(late || waiter.cancelled->load());
      it = waiting_.erase(it);
    }
  }

  void TakeAndCheck() {
    const std::vector<int> numbers = Begin();
    CheckDropped();
    int64_t queries = 0;
    for (const int number : numbers) {
      const Waiter& waiter = at(number);
      EXPECT_EQ(waiting_.erase(number), 1u) << "not one that waits, or taken twice";
      EXPECT_EQ(waiter.ask.collection, at(numbers.front()).ask.collection);
      EXPECT_GT(waiter.deadline, clock_.Now()) << "the dead never reach the device";
      EXPECT_FALSE(waiter.cancelled->load());
      queries += waiter.ask.queries;
    }
    EXPECT_TRUE(queries <= kBatchMax || numbers.size() == 1);
    // An earlier search of the same caller is skipped only if it is too large.
    for (const int number : numbers) {
      for (const int other : waiting_) {
        const Ask& left = at(other).ask;
        const Ask& taken = at(number).ask;
        if (other > number || left.caller != taken.caller || left.priority != taken.priority ||
            left.collection != taken.collection) {
          continue;
        }
        EXPECT_GT(left.queries, 1) << other << " was overtaken by " << number;
      }
    }
  }

  std::mt19937_64 random_{::nearfield::testing::TestSeed()};
  std::set<int> waiting_;
};

TEST_F(SearchQueueModelTest, EverySearchIsAnsweredExactlyOnceWhateverHappens) {
  for (const bool admission : {true, false}) {
    Start({.requests_max = kRequestsMax,
           .bytes_max = 1 << 14,
           .batch_max = kBatchMax,
           .admission = admission});
    const std::vector<std::shared_ptr<Collection>> collections = {
        NewCollection({.pass_us = 100, .query_us = 1}),
        NewCollection({.pass_us = 10, .query_us = 500}), NewCollection({.pass_us = 20000})};
    for (int step = 0; step < 20000; ++step) {
      switch (Draw(8)) {
        case 0:
          End();
          TakeAndCheck();
          break;
        case 1:
          clock_.Advance(Draw(2000));
          queue_->AnswerOverdue();
          for (const int number : waiting_) {
            EXPECT_TRUE(at(number).answers > 0 || at(number).deadline > clock_.Now());
          }
          break;
        case 2:
          if (!waiting_.empty() && Draw(4) == 0) at(*waiting_.begin()).cancelled->store(true);
          break;
        case 3:
          if (Draw(10) == 0) End(/*us=*/Draw(1000000));
          break;
        default: PushAny(collections);
      }
      CheckDropped();
      ASSERT_EQ(queue_->waiting(), static_cast<int64_t>(waiting_.size()));
      ASSERT_LE(queue_->waiting(), kRequestsMax);
      ASSERT_LE(queue_->waiting_bytes(), 1 << 14);
    }
    End();
    queue_->Close();
    for (const auto& waiter : waiters_) {
      EXPECT_EQ(waiter->answers, waiter->refusal.ok() ? 1 : 0);
    }
    waiting_.clear();
    waiters_.clear();
    numbers_of_.clear();
  }
}

// Without limits, no search waits forever: permanent load starves no caller.
TEST_F(SearchQueueModelTest, EverybodyIsServedInTheEnd) {
  Start({.requests_max = 1000000, .batch_max = kBatchMax, .admission = false, .caller_share = 1});
  const std::vector<std::shared_ptr<Collection>> collections = {
      NewCollection({.pass_us = 1000, .query_us = 10}),
      NewCollection({.pass_us = 100, .query_us = 50}), NewCollection({.pass_us = 3000})};
  for (const auto& collection : collections) Learn(collection, 8);
  std::map<int, int> pushed_at;
  for (int pass = 0; pass < 2000; ++pass) {
    // Slightly more than a pass serves.
    for (int i = 0; i < 26; ++i) {
      Ask ask = {.caller = "caller " + std::to_string(Draw(8)),
                 .collection = collections[static_cast<size_t>(Draw(3))]};
      if (Draw(8) == 0) ask.priority = SearchPriority::kBatch;
      if (ask.caller == "caller 7") {  // this caller searches rarely
        if (Draw(100) != 0) continue;
        pushed_at[Push(ask)] = pass;
      } else {
        Push(ask);
      }
    }
    RunOne();
  }
  for (const auto& [number, pass] : pushed_at) {
    if (pass > 1500) continue;
    EXPECT_EQ(at(number).answers, 1) << "pushed before pass " << pass;
  }
}

// Returns the bytes of an answer, in order.
std::string BytesOf(const Neighbors& neighbors) {
  std::string bytes;
  for (size_t i = 0; i < neighbors.scores.size(); ++i) {
    bytes.append(reinterpret_cast<const char*>(&neighbors.scores[i]), sizeof(float));
    const uint64_t id = std::get<uint64_t>(neighbors.ids.at(static_cast<int64_t>(i)));
    bytes.append(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  return bytes;
}

TEST_F(SearchQueueModelTest, AnAnswerHasTheSameBytesWhateverSharesItsPass) {
  const std::shared_ptr<Collection> rows = NewCollection();
  std::unique_ptr<Upload> upload = *rows->BeginUpload({.rows_max = 50, .payload_bytes_max = 0});
  IdColumn ids;
  std::vector<float> values;
  for (uint64_t id = 0; id < 50; ++id) {
    ids.AppendNumber(id);
    values.push_back(static_cast<float>(Draw(10)));
    values.push_back(static_cast<float>(Draw(10)));
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(values.data());
  ASSERT_OK(upload->Append({.ids = &ids, .rows = absl::MakeConstSpan(bytes, values.size() * 4)}));
  ASSERT_OK(upload->Commit());
  std::map<int, std::string> alone;
  for (const int64_t batch_max : {1, 7, 64}) {
    Start({.batch_max = batch_max});
    std::map<int, std::string> answers;
    for (int i = 0; i < 64; ++i) {
      SearchTicket ticket = TicketFor(rows, {static_cast<float>(i % 8), static_cast<float>(i / 8)});
      ticket.request.queries[0].k = 1 + i % 20;
      ticket.caller = std::to_string(Draw(3));
      ticket.priority = Draw(2) == 0 ? SearchPriority::kBatch : SearchPriority::kInteractive;
      ticket.done = [&answers, i](const absl::StatusOr<SearchReply>& reply) {
        ASSERT_OK(reply);
        answers[i] = BytesOf(reply->result.queries.at(0));
      };
      ASSERT_OK(queue_->Push(std::move(ticket)));
    }
    for (SearchTickets batch = queue_->TryTake(); !batch.empty(); batch = queue_->TryTake()) {
      RunBatch(Base(clock_), std::move(batch));
    }
    ASSERT_EQ(answers.size(), 64u);
    if (batch_max == 1) alone = answers;
    EXPECT_EQ(answers, alone) << batch_max;
  }
}

TEST_F(SearchQueueModelTest, ThreadsThatPushAtOnceAreAllAnsweredWhileTheEngineRuns) {
  const std::shared_ptr<Collection> rows = NewCollection();
  const SteadyClock clock;
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  {
    SearchQueue queue({.requests_max = 64, .batch_max = 8}, &clock);
    EngineThread engine_thread(Base(clock), &queue);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          SearchTicket ticket = TicketFor(rows);
          ticket.caller = std::to_string(t);
          if (i % 3 == 0) ticket.deadline = clock.Now() + std::chrono::microseconds(200);
          ticket.done = [&](const absl::StatusOr<SearchReply>&) { ++answered; };
          if (i % 2 == 0) ticket.lent_thread = {std::this_thread::get_id(), 1e9};
          if (!engine_thread.Push(std::move(ticket)).ok()) ++refused;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(answered + refused, kThreads * kEach);
}

// Regression: the device held a search for minutes. Other waiting searches got their expired
// deadlines only when it ended.
TEST_F(SearchQueueModelTest, APassedDeadlineIsAnsweredWhileThePassIsStillRunning) {
  const std::shared_ptr<Collection> rows = NewCollection();
  const SteadyClock clock;
  SearchQueue queue({}, &clock);
  script_->search_gate.Close();
  const EngineThread engine_thread(Base(clock), &queue);
  std::vector<std::promise<absl::Status>> answers(2);
  for (size_t i = 0; i < answers.size(); ++i) {
    SearchTicket ticket = TicketFor(rows);
    if (i == 1) ticket.deadline = clock.Now() + std::chrono::milliseconds(500);
    ticket.done = [&answers, i](const absl::StatusOr<SearchReply>& reply) {
      answers[i].set_value(reply.status());
    };
    ASSERT_OK(queue.Push(std::move(ticket)));
    if (i == 0) script_->search_gate.AwaitArrivals(1);
  }
  EXPECT_THAT(answers[1].get_future().get(), StatusIs(kDeadlineExceeded));
  EXPECT_EQ(script_->searches, 1);
  script_->search_gate.Open();
  EXPECT_OK(answers[0].get_future().get());
}

}  // namespace
}  // namespace nearfield::server

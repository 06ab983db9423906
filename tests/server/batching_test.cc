// Tests of the queue and of the batches in front of the engine, with a clock that they control.
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/scheduler/batch_runner.h"
#include "server/scheduler/engine_thread.h"
#include "server/scheduler/retry_hint.h"
#include "server/scheduler/search_queue.h"
#include "server/scheduler/worker_pool.h"
#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {
namespace {

class SearchQueueBatchingTest : public ::testing::Test {
 protected:
  SearchQueueBatchingTest() : a_(NewCollection({1, 2, 3})), b_(NewCollection({10})) {}

  std::shared_ptr<Collection> NewCollection(std::vector<uint64_t> ids) {
    const std::vector<float> values(ids.begin(), ids.end());
    std::shared_ptr<Collection> collection = *engine_->CreateCollection(testing::kPlainSpec);
    EXPECT_OK(testing::UploadAll(*collection, testing::PlainRows(std::move(ids), values)));
    return collection;
  }

  // Returns a ticket of `queries` queries; its answer goes to answers_[name].
  SearchTicket Ticket(const std::string& name, const std::shared_ptr<Collection>& collection,
                      int queries = 1) {
    SearchTicket ticket;
    ticket.request.collection = collection;
    ticket.request.values = {1.0f, 0.0f};
    for (int k = 1; k <= queries; ++k)
      ticket.request.queries.push_back({.vector = ticket.request.values, .k = k});
    ticket.cancelled = MakeCancelFlag();
    ticket.done = [this, name](absl::StatusOr<SearchReply> reply) {
      ASSERT_EQ(answers_.count(name), 0u) << name << " was answered twice";
      answers_.emplace(name, std::move(reply));
    };
    return ticket;
  }

  absl::Status StatusOf(const std::string& name) {
    const auto it = answers_.find(name);
    return it == answers_.end() ? absl::UnknownError("not answered") : it->second.status();
  }

  void RunOne(SearchQueue* queue) {
    SearchTickets batch = queue->TryTake();
    if (!batch.empty()) RunBatch(Base(clock_), std::move(batch));
  }

  PassBase Base(const Clock& clock) {
    return {.engine = engine_.get(), .clock = &clock, .counter = &counter_};
  }

  FakeClock clock_;
  PassCounter counter_;
  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  std::unique_ptr<Engine> engine_ = testing::MakeScriptedEngine(script_);
  std::shared_ptr<Collection> a_;
  std::shared_ptr<Collection> b_;
  std::map<std::string, absl::StatusOr<SearchReply>> answers_;
};

TEST_F(SearchQueueBatchingTest, WaitingSearchesOfOneCollectionShareOnePass) {
  SearchQueue queue({}, &clock_);
  ASSERT_OK(queue.Push(Ticket("a1", a_)));
  clock_.Advance(100);
  ASSERT_OK(queue.Push(Ticket("b1", b_)));
  ASSERT_OK(queue.Push(Ticket("a2", a_, /*queries=*/2)));
  RunOne(&queue);
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(3));
  ASSERT_OK(StatusOf("a1"));
  ASSERT_OK(StatusOf("a2"));
  EXPECT_EQ(answers_.count("b1"), 0u);
  const SearchReply& first = *answers_.at("a1");
  EXPECT_EQ(first.timing.batch_size, 3);
  EXPECT_EQ(first.timing.queue_us, 100);
  EXPECT_EQ(first.result.queries.size(), 1u);
  const SearchReply& second = *answers_.at("a2");
  EXPECT_EQ(second.timing.queue_us, 0);
  ASSERT_EQ(second.result.queries.size(), 2u);
  EXPECT_THAT(second.result.queries[1].scores, ElementsAre(3.0f, 2.0f));
  RunOne(&queue);
  EXPECT_OK(StatusOf("b1"));
  EXPECT_EQ(queue.waiting(), 0);
}

TEST_F(SearchQueueBatchingTest, OtherRowPartsOrTooManyQueriesMakeAnotherPass) {
  SearchQueue queue({.batch_max = 4}, &clock_);
  ASSERT_OK(queue.Push(Ticket("three", a_, 3)));
  SearchTicket with_vectors = Ticket("vectors", a_);
  with_vectors.request.parts.vectors = true;
  ASSERT_OK(queue.Push(std::move(with_vectors)));
  ASSERT_OK(queue.Push(Ticket("two", a_, 2)));
  ASSERT_OK(queue.Push(Ticket("one", a_, 1)));
  for (int i = 0; i < 3; ++i) RunOne(&queue);
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(4, 1, 2));
  EXPECT_FALSE(answers_.at("vectors")->result.queries[0].rows.empty());
  EXPECT_TRUE(answers_.at("two")->result.queries[0].rows.empty());
}

TEST_F(SearchQueueBatchingTest, DeadSearchesNeverReachTheDevice) {
  SearchQueue queue({}, &clock_);
  SearchTicket late = Ticket("late", a_);
  late.deadline = clock_.Now() + std::chrono::milliseconds(5);
  SearchTicket left = Ticket("left", a_);
  const CancelFlag leave = left.cancelled;
  ASSERT_OK(queue.Push(std::move(late)));
  ASSERT_OK(queue.Push(std::move(left)));
  clock_.Advance(5000);
  leave->store(true);
  RunOne(&queue);
  EXPECT_THAT(StatusOf("late"), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(StatusOf("left"), StatusIs(kCancelled));
  EXPECT_EQ(script_->searches, 0);
}

TEST_F(SearchQueueBatchingTest, DeadOnArrivalIsRefused) {
  SearchQueue queue({}, &clock_);
  SearchTicket late = Ticket("late", a_);
  late.deadline = clock_.Now();
  EXPECT_THAT(queue.Push(std::move(late)), StatusIs(kDeadlineExceeded));
  EXPECT_EQ(answers_.count("late"), 0u);
}

TEST_F(SearchQueueBatchingTest, AFullQueueRefusesAtOnceAndSaysWhenToComeBack) {
  SearchQueue queue({.requests_max = 2}, &clock_);
  ASSERT_OK(queue.Push(Ticket("0", a_)));
  RunOne(&queue);
  queue.RecordPass(1000000);
  answers_.clear();
  ASSERT_OK(queue.Push(Ticket("1", a_)));
  ASSERT_OK(queue.Push(Ticket("2", a_)));
  const absl::Status refused = queue.Push(Ticket("3", a_));
  EXPECT_THAT(refused, FailsWith(kResourceExhausted, "limits are 2"));
  EXPECT_THAT(RetryAfterMs(refused), Optional(Ge(200)));
  EXPECT_EQ(answers_.size(), 0u);
}

TEST_F(SearchQueueBatchingTest, QueuedBytesAreBoundedButOneRequestAlwaysFits) {
  SearchQueue queue({.bytes_max = 1}, &clock_);
  EXPECT_OK(queue.Push(Ticket("1", a_)));
  EXPECT_THAT(queue.Push(Ticket("2", a_)), StatusIs(kResourceExhausted));
  RunOne(&queue);
  EXPECT_OK(queue.Push(Ticket("3", a_)));
}

TEST_F(SearchQueueBatchingTest, DeadSearchesMakeRoomInAFullQueue) {
  SearchQueue queue({.requests_max = 1}, &clock_);
  SearchTicket first = Ticket("first", a_);
  const CancelFlag leave = first.cancelled;
  ASSERT_OK(queue.Push(std::move(first)));
  leave->store(true);
  EXPECT_OK(queue.Push(Ticket("second", a_)));
  EXPECT_THAT(StatusOf("first"), StatusIs(kCancelled));
  EXPECT_EQ(queue.waiting(), 1);
}

TEST_F(SearchQueueBatchingTest, OneAtFaultDoesNotFailTheOthersOfItsPass) {
  SearchQueue queue({}, &clock_);
  SearchTicket bad = Ticket("bad", a_);
  bad.request.queries[0] = {.row_id = Id(uint64_t{99}), .k = 1};
  ASSERT_OK(queue.Push(Ticket("good", a_)));
  ASSERT_OK(queue.Push(std::move(bad)));
  RunOne(&queue);
  EXPECT_OK(StatusOf("good"));
  EXPECT_EQ(answers_.at("good")->timing.batch_size, 1);
  EXPECT_THAT(StatusOf("bad"), StatusIs(kNotFound));
}

TEST_F(SearchQueueBatchingTest, OneAtFaultAmongManyCostsFewPasses) {
  SearchQueue queue({}, &clock_);
  for (int i = 0; i < 64; ++i) {
    SearchTicket ticket = Ticket(std::to_string(i), a_);
    if (i == 21) ticket.request.queries[0] = {.row_id = Id(uint64_t{99}), .k = 1};
    ASSERT_OK(queue.Push(std::move(ticket)));
  }
  RunOne(&queue);
  for (int i = 0; i < 64; ++i) {
    EXPECT_THAT(StatusOf(std::to_string(i)), StatusIs(i == 21 ? kNotFound : kOk));
  }
  EXPECT_EQ(script_->searches, 1 + 2 * 6);
}

TEST_F(SearchQueueBatchingTest, TheRepliesOfOneBatchAreBoundedButOneRequestAlwaysFits) {
  SearchQueue queue({.reply_bytes_max = 100}, &clock_);
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, int64_t>>{
           {"60", 60}, {"50", 50}, {"40", 40}, {"1", 1}, {"500", 500}}) {
    SearchTicket ticket = Ticket(name, a_);
    ticket.request.reply_bytes_min = bytes;
    ASSERT_OK(queue.Push(std::move(ticket)));
  }
  for (int i = 0; i < 3; ++i) RunOne(&queue);
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(2, 2, 1));
  EXPECT_EQ(answers_.at("40")->timing.batch_size, 2) << "60 and 40 fill the first";
  EXPECT_OK(StatusOf("500"));
}

TEST_F(SearchQueueBatchingTest, ABatchMayCopyAFewRepliesAndOnlyTheOneAtFaultFails) {
  SearchQueue queue({}, &clock_);
  const auto push = [&](const std::string& name, int queries, int64_t bytes_max) {
    SearchTicket ticket = Ticket(name, a_, queries);
    ticket.request.parts = {.vectors = true, .payloads = false, .bytes_max = bytes_max};
    ASSERT_OK(queue.Push(std::move(ticket)));
  };
  push("8", 1, 20);  // a row is 8 bytes; the queries request 1 .. n rows
  push("24", 2, 20);
  push("other", 1, 19);
  RunOne(&queue);
  EXPECT_EQ(script_->batch_sizes(), std::vector<int64_t>{3}) << "32 of 40 bytes";
  EXPECT_OK(StatusOf("8"));
  EXPECT_OK(StatusOf("24"));
  RunOne(&queue);
  EXPECT_OK(StatusOf("other"));
  push("8 again", 1, 20);
  push("48", 3, 20);
  RunOne(&queue);
  EXPECT_OK(StatusOf("8 again"));
  EXPECT_THAT(StatusOf("48"), StatusIs(kResourceExhausted));
}

TEST_F(SearchQueueBatchingTest, ALostDeviceFailsThePassOnce) {
  SearchQueue queue({}, &clock_);
  script_->device->Lose();
  ASSERT_OK(queue.Push(Ticket("1", a_)));
  ASSERT_OK(queue.Push(Ticket("2", a_)));
  RunOne(&queue);
  EXPECT_THAT(StatusOf("1"), StatusIs(kUnavailable));
  EXPECT_THAT(StatusOf("2"), StatusIs(kUnavailable));
  EXPECT_EQ(script_->searches, 1);
}

TEST_F(SearchQueueBatchingTest, APassGoesOnWhileOneCallerWaitsAndEndsWithTheLast) {
  SearchTicket stays = Ticket("stays", a_);
  SearchTicket leaves = Ticket("leaves", a_);
  stays.deadline = clock_.Now() + std::chrono::seconds(1);
  leaves.cancelled->store(true);
  SearchTickets batch;
  batch.push_back(std::make_unique<SearchTicket>(std::move(stays)));
  batch.push_back(std::make_unique<SearchTicket>(std::move(leaves)));
  RunBatch(Base(clock_), std::move(batch));
  EXPECT_OK(StatusOf("stays"));
  EXPECT_EQ(script_->cancelled_searches, 0);

  batch.clear();
  batch.push_back(std::make_unique<SearchTicket>(Ticket("late", a_)));
  batch.back()->deadline = clock_.Now();
  RunBatch(Base(clock_), std::move(batch));
  EXPECT_THAT(StatusOf("late"), StatusIs(kDeadlineExceeded));
  EXPECT_EQ(script_->cancelled_searches, 1);
}

TEST_F(SearchQueueBatchingTest, CloseAnswersAllThatWaitAndRefusesTheRest) {
  SearchQueue queue({}, &clock_);
  ASSERT_OK(queue.Push(Ticket("1", a_)));
  queue.Close();
  EXPECT_THAT(StatusOf("1"), StatusIs(kUnavailable));
  EXPECT_THAT(queue.Push(Ticket("2", a_)), StatusIs(kUnavailable));
  EXPECT_TRUE(queue.Take().empty());
}

TEST_F(SearchQueueBatchingTest, TheEngineThreadTakesWhatGatheredDuringThePassBefore) {
  SteadyClock clock;
  SearchQueue queue({}, &clock);
  script_->search_gate.Close();
  std::vector<std::future<absl::Status>> answers;
  const auto push = [&] {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    answers.push_back(promise->get_future());
    SearchTicket ticket = Ticket("", a_);
    ticket.done = [promise](absl::StatusOr<SearchReply> reply) {
      promise->set_value(reply.status());
    };
    ASSERT_OK(queue.Push(std::move(ticket)));
  };
  {
    const EngineThread thread(Base(clock), &queue);
    push();
    script_->search_gate.AwaitArrivals(1);
    for (int i = 0; i < 5; ++i) push();
    script_->search_gate.Open();
    for (auto& answer : answers) EXPECT_OK(answer.get());
  }
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(1, 5));
}

// The searches of a shared pass are answered in chunks, by several threads. Each gets its own part
// of the answer, whatever the number of searches and of their queries, even if no worker has room.
TEST_F(SearchQueueBatchingTest, ChunksOfASharedPassGetTheirOwnAnswers) {
  for (const int tickets : {2, 7, 8, 9, 16, 40}) {
    for (const int64_t waiting_max : {0, 100}) {
      WorkerPool replies({.what = "replies", .threads = 3, .waiting_max = waiting_max});
      PassBase base = Base(clock_);
      base.replies = &replies;
      SearchTickets batch;
      std::vector<std::promise<SearchReply>> answers(static_cast<size_t>(tickets));
      for (int i = 0; i < tickets; ++i) {
        batch.push_back(std::make_unique<SearchTicket>(Ticket("", a_, 1 + i % 3)));
        batch.back()->done = [&answers, i](absl::StatusOr<SearchReply> reply) {
          answers[static_cast<size_t>(i)].set_value(*std::move(reply));
        };
      }
      Pass pass = RunPass(base, std::move(batch));
      const auto queries_count = static_cast<int32_t>(pass.result->queries.size());
      AnswerInChunks(base, std::move(pass), /*idle=*/tickets % 2 == 0);
      for (int i = 0; i < tickets; ++i) {
        const SearchReply reply = answers[static_cast<size_t>(i)].get_future().get();
        EXPECT_EQ(reply.timing.batch_size, queries_count);
        ASSERT_EQ(reply.result.queries.size(), static_cast<size_t>(1 + i % 3));
        for (size_t q = 0; q < reply.result.queries.size(); ++q) {  // its k is q + 1
          EXPECT_THAT(reply.result.queries[q].scores, SizeIs(q + 1));
        }
      }
    }
  }
}

// A search by a thread that waits runs on that thread if the device is idle. Searches that arrive
// during its pass wait for the engine thread, which runs them as one pass.
TEST_F(SearchQueueBatchingTest, AWaitingThreadRunsThePassOfAnIdleEngine) {
  SteadyClock clock;
  SearchQueue queue({}, &clock);
  script_->search_gate.Close();
  std::vector<std::promise<std::thread::id>> answered(6);
  const auto ticket_of = [&](size_t number) {
    SearchTicket ticket = Ticket("", a_);
    ticket.done = [&answered, number](const absl::StatusOr<SearchReply>& reply) {
      EXPECT_OK(reply.status());
      answered[number].set_value(std::this_thread::get_id());
    };
    return ticket;
  };
  EngineThread thread(Base(clock), &queue);
  const auto push = [&](size_t number) {
    SearchTicket ticket = ticket_of(number);
    ticket.lent_thread = {std::this_thread::get_id(), 1e9};
    EXPECT_OK(thread.Push(std::move(ticket)));
  };
  std::thread caller([&] { push(0); });
  const std::thread::id caller_id = caller.get_id();
  script_->search_gate.AwaitArrivals(1);
  for (size_t i = 1; i < answered.size(); ++i) push(i);
  EXPECT_EQ(queue.waiting(), 5);
  script_->search_gate.Open();
  caller.join();
  EXPECT_EQ(answered[0].get_future().get(), caller_id);
  for (size_t i = 1; i < answered.size(); ++i) {
    const std::thread::id id = answered[i].get_future().get();
    EXPECT_NE(id, caller_id);
    EXPECT_NE(id, std::this_thread::get_id());
  }
  EXPECT_THAT(script_->batch_sizes(), ElementsAre(1, 5));
}

TEST_F(SearchQueueBatchingTest, AWaitingThreadIsRefusedAsAnyOther) {
  SearchQueue queue({.requests_max = 1}, &clock_);
  SearchTicket cancelled = Ticket("cancelled", a_);
  cancelled.cancelled->store(true);
  EXPECT_THAT(queue.PushOrTake(std::move(cancelled)).status(), StatusIs(kCancelled));
  ASSERT_OK(queue.Push(Ticket("first", a_)));
  EXPECT_THAT(queue.PushOrTake(Ticket("second", a_)).status(), StatusIs(kResourceExhausted));
  RunOne(&queue);
  queue.RecordPass(1000);
  const auto lent = [&](const char* name, double pass_us_max) {
    SearchTicket ticket = Ticket(name, a_);
    ticket.lent_thread.pass_us_max = pass_us_max;
    return ticket;
  };
  const absl::StatusOr<SearchTickets> too_long = queue.PushOrTake(lent("long", 999));
  ASSERT_OK(too_long.status());
  EXPECT_THAT(*too_long, IsEmpty());
  RunOne(&queue);
  queue.RecordPass(1000);
  const absl::StatusOr<SearchTickets> taken = queue.PushOrTake(lent("third", 1000));
  ASSERT_OK(taken.status());
  EXPECT_THAT(*taken, SizeIs(1));
  const absl::StatusOr<SearchTickets> queued = queue.PushOrTake(lent("fourth", 1000));
  ASSERT_OK(queued.status());
  EXPECT_THAT(*queued, IsEmpty());
  queue.RecordPass(1000);
  EXPECT_EQ(queue.waiting(), 1);
  queue.Close();
  EXPECT_THAT(queue.PushOrTake(Ticket("fifth", a_)).status(), StatusIs(kUnavailable));
}

}  // namespace
}  // namespace nearfield::server

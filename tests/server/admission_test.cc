// Tests of admission (by predicted time, bounds of the queue, shares of callers): which searches
// are refused, with which hint, and which failures must not block admission.
#include "server/scheduler/retry_hint.h"
#include "tests/server/queue_fixture.h"

namespace nearfield::server {
namespace {

class SearchQueueAdmissionTest : public QueueFixture {};

TEST_F(SearchQueueAdmissionTest, WhatCannotMeetItsDeadlineIsRefusedAtOnceAndTheHintIsWhenItCould) {
  Start({});
  const auto slow = LearnedCollection({.pass_us = 100000});
  const auto other = LearnedCollection({.pass_us = 50000});
  Occupy(slow);
  const absl::Status refused = TryPush({.collection = other, .deadline_us = 60000});
  EXPECT_THAT(refused, FailsWith(kResourceExhausted, "its deadline is in 60 ms", "take 50 ms"));
  const std::optional<int64_t> hint = RetryAfterMs(refused);
  ASSERT_TRUE(hint.has_value());
  EXPECT_EQ(queue_->waiting(), 0);
  // The prediction is 150 ms plus a safety margin.
  EXPECT_GE(*hint, 90);
  EXPECT_LE(*hint, 120);
  EXPECT_OK(
      TryPush({.collection = other, .deadline_us = 60000.0 + 1000.0 * static_cast<double>(*hint)}));
}

TEST_F(SearchQueueAdmissionTest, ARefusedSearchIsNeverAnsweredAndCostsNoPass) {
  Start({});
  const auto slow = LearnedCollection({.pass_us = 100000});
  Occupy(slow);
  const int refused = Push({.collection = slow, .deadline_us = 1000});
  EXPECT_THAT(at(refused).refusal, StatusIs(kResourceExhausted));
  End();
  EXPECT_THAT(RunOne(), ElementsAre());
  EXPECT_EQ(at(refused).answers, 0);
}

TEST_F(SearchQueueAdmissionTest, NothingIsRefusedByPredictionWhileTheEngineIsIdle) {
  Start({});
  const auto slow = LearnedCollection({.pass_us = 10e6});
  EXPECT_OK(TryPush({.collection = slow, .deadline_us = 1000}));
}

TEST_F(SearchQueueAdmissionTest, WhatIsNotKnownIsNoReasonToRefuse) {
  Start({});
  const auto fresh = NewCollection({.pass_us = 1e6});
  Occupy(fresh);
  EXPECT_OK(TryPush({.collection = fresh, .deadline_us = 1000}));
}

TEST_F(SearchQueueAdmissionTest, OneSlowPassDoesNotShutTheDoor) {
  Start({});
  const auto a = LearnedCollection({.pass_us = 10000});
  Occupy(a);
  End(/*us=*/10e6);
  Occupy(a);
  EXPECT_OK(TryPush({.collection = a, .deadline_us = 50000}));
}

TEST_F(SearchQueueAdmissionTest, ADeviceThatBecameFasterIsFoundOutOnceASecond) {
  Start({});
  const auto a = NewCollection({.pass_us = 1e6});
  const auto busy = NewCollection({.pass_us = 10000});
  Learn(a, 1);
  Learn(busy, 1);
  times_[a.get()].pass_us = 1000;
  int admitted = 0;
  for (int i = 0; i < 400 && admitted == 0; ++i) {  // 4 s, in which the engine is never idle
    Push({.caller = "busy", .collection = busy});
    Begin();
    Push({.caller = "busy", .collection = busy});
    if (TryPush({.caller = "b", .collection = a, .deadline_us = 200000}).ok()) ++admitted;
    End();
  }
  EXPECT_EQ(admitted, 1);
  while (queue_->waiting() > 0) RunOne();
  Learn(a, 1, /*passes=*/2);
  Occupy(busy);
  EXPECT_OK(TryPush({.collection = a, .deadline_us = 200000}));
}

TEST_F(SearchQueueAdmissionTest, APassThatDoesNotEndIsTakenForAsLateAgain) {
  Start({});
  const auto a = LearnedCollection({.pass_us = 10000});
  Occupy(a);
  clock_.Advance(510000);
  EXPECT_THAT(TryPush({.collection = a, .deadline_us = 400000}), StatusIs(kResourceExhausted));
  EXPECT_OK(TryPush({.collection = a, .deadline_us = 800000}));
  End(/*us=*/0);
  RunOne();
  Occupy(a);
  EXPECT_OK(TryPush({.collection = a, .deadline_us = 400000})) << "it is over";
}

TEST_F(SearchQueueAdmissionTest, AWaitBeyondTheLimitIsRefusedWhateverTheDeadline) {
  Start({.wait_us_max = 50000});
  const auto a = LearnedCollection({.pass_us = 100000});
  Occupy(a);
  EXPECT_THAT(TryPush({.collection = a}), FailsWith(kResourceExhausted, "queue_ms_max is 50 ms"));
  clock_.Advance(80000);
  EXPECT_OK(TryPush({.collection = a}));
}

TEST_F(SearchQueueAdmissionTest, OffMeansThatOnlyTheBoundsRefuse) {
  Start({.requests_max = 2, .admission = false});
  const auto a = LearnedCollection({.pass_us = 1e6});
  Occupy(a);
  EXPECT_OK(TryPush({.collection = a, .deadline_us = 1000}));
  EXPECT_OK(TryPush({.collection = a}));
  EXPECT_THAT(TryPush({.collection = a}), FailsWith(kResourceExhausted, "queue is full"));
}

TEST_F(SearchQueueAdmissionTest, ALoneCallerHasItsShareOfTheQueueAndOthersFindRoom) {
  Start({.requests_max = 100, .caller_share = 0.8});
  const auto a = NewCollection();
  int accepted = 0;
  absl::Status refused;
  while ((refused = TryPush({.caller = "greedy", .collection = a})).ok()) ++accepted;
  EXPECT_EQ(accepted, 80);
  EXPECT_THAT(refused, FailsWith(kResourceExhausted, "80 of its requests"));
  EXPECT_TRUE(RetryAfterMs(refused).has_value());
  EXPECT_OK(TryPush({.caller = "second", .collection = a}));
}

TEST_F(SearchQueueAdmissionTest, GreedyCallersLeaveRoomForANewOne) {
  Start({.requests_max = 100, .batch_max = 10, .caller_share = 0.8});
  const auto a = NewCollection();
  for (int pass = 0; pass < 100; ++pass) {
    for (const char* caller : {"greedy", "second", "third"}) {
      while (TryPush({.caller = caller, .collection = a}).ok()) {
      }
    }
    if (pass >= 20) {
      EXPECT_OK(TryPush({.caller = "new " + std::to_string(pass), .collection = a})) << pass;
    }
    RunOne();
  }
}

TEST_F(SearchQueueAdmissionTest, BytesAreSharedAsRequestsAreButOneSearchAlwaysFits) {
  Start({.bytes_max = 100000, .caller_share = 0.5});
  const auto a = NewCollection();
  EXPECT_OK(TryPush({.caller = "greedy", .collection = a, .bytes = 40000}));
  EXPECT_THAT(TryPush({.caller = "greedy", .collection = a, .bytes = 40000}),
              FailsWith(kResourceExhausted, "this caller's share"));
  EXPECT_OK(TryPush({.caller = "other", .collection = a, .bytes = 40000}));
  EXPECT_GE(queue_->waiting_bytes(), 80000);
  EXPECT_THAT(TryPush({.caller = "third", .collection = a, .bytes = 40000}),
              FailsWith(kResourceExhausted, "queue is full"));
}

// Regression: a caller that always had a waiting search was still charged the bytes of its served
// ones. Its share filled up permanently.
TEST_F(SearchQueueAdmissionTest, AServedSearchGivesTheBytesOfItsCallerBack) {
  Start({.bytes_max = 100000, .caller_share = 0.5});
  const auto a = NewCollection();
  const auto b = NewCollection();  // no pass contains searches of both
  ASSERT_OK(TryPush({.caller = "steady", .collection = a, .bytes = 10000}));
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK(TryPush({.caller = "steady", .collection = i % 2 == 0 ? b : a, .bytes = 10000})) << i;
    ASSERT_THAT(RunOne(), ElementsAre(i));
  }
}

TEST_F(SearchQueueAdmissionTest, APassedDeadlineIsAnsweredWhileTheDeviceWorks) {
  Start({});
  const auto a = NewCollection({.pass_us = 1e6});
  Occupy(a);
  const int late = Push({.collection = a, .deadline_us = 5000});
  const int patient = Push({.collection = a});
  queue_->AnswerOverdue();
  EXPECT_EQ(at(late).answers, 0) << "not yet";
  clock_.Advance(5000);
  queue_->AnswerOverdue();
  EXPECT_THAT(at(late).status, StatusIs(kDeadlineExceeded));
  End();
  EXPECT_THAT(RunOne(), ElementsAre(patient));
}

// Each k_max rows after the first k_max cost a separate scan; k is 10 here.
class SearchWorkTest : public QueueFixture {
 protected:
  SearchWorkTest() {
    Start({.k_max = 100});
    collection_ = LearnedCollection({.pass_us = 10000, .few_rows_us = 100});
    Occupy(collection_);
  }
  absl::Status AskFor(int64_t skip, double deadline_us,
                      std::shared_ptr<ResultPageCache> page_cache = nullptr) {
    return TryPush({.collection = collection_,
                    .deadline_us = deadline_us,
                    .skip = skip,
                    .page_cache = std::move(page_cache)});
  }
  std::shared_ptr<Collection> collection_;
};

TEST_F(SearchWorkTest, ADeepPageIsExpectedToTakeItsScans) {
  EXPECT_THAT(AskFor(/*skip=*/990, /*deadline_us=*/100000),
              FailsWith(kResourceExhausted, "take 100 ms"));
  EXPECT_OK(AskFor(/*skip=*/90, /*deadline_us=*/30000)) << "one scan finds all";
  EXPECT_OK(AskFor(/*skip=*/990, /*deadline_us=*/200000));
  // A later search must wait for the running pass (10 ms), its own (10 ms) and the deep page (100
  // ms).
  EXPECT_THAT(AskFor(/*skip=*/0, /*deadline_us=*/100000), StatusIs(kResourceExhausted));
  EXPECT_OK(AskFor(/*skip=*/0, /*deadline_us=*/200000));
}

TEST_F(SearchWorkTest, DeepPagesHaveAPassOfTheirOwnAndTeachWhatOneScanTakes) {
  const int deep = Push({.collection = collection_, .skip = 990});
  const int plain = Push({.collection = collection_});
  End();
  EXPECT_THAT(RunOne(), ElementsAre(deep));
  EXPECT_THAT(RunOne(), ElementsAre(plain));
  for (int i = 0; i < 10; ++i) {
    Push({.collection = collection_, .skip = 990});
    RunOne();
  }
  Occupy(collection_);
  EXPECT_OK(AskFor(/*skip=*/0, /*deadline_us=*/30000));
  EXPECT_THAT(AskFor(/*skip=*/990, /*deadline_us=*/100000), StatusIs(kResourceExhausted));
}

TEST_F(SearchWorkTest, APageThatIsKnownAlreadyCostsNothing) {
  struct Known final : ResultPageCache {
    int64_t rows_count() const override { return 1000; }
    int64_t bytes() const override { return 0; }
  };
  const auto page_cache = std::make_shared<Known>();
  EXPECT_OK(AskFor(/*skip=*/990, /*deadline_us=*/15000, page_cache));
  End();
  Begin();
  EXPECT_EQ(RunningUs(), 0);
  End();
  Occupy(collection_);
  EXPECT_THAT(AskFor(/*skip=*/0, /*deadline_us=*/15000), StatusIs(kResourceExhausted))
      << "it did not teach that passes take no time";
  EXPECT_OK(AskFor(/*skip=*/1090, /*deadline_us=*/25000, page_cache)) << "one scan is missing";
}

TEST_F(SearchWorkTest, AFilterOfFewRowsIsLearnedApart) {
  const auto filter = std::make_shared<RowFilter>();
  const Ask few = {
      .collection = collection_, .deadline_us = 15000, .filter = filter, .few_rows = true};
  EXPECT_THAT(TryPush(few), StatusIs(kResourceExhausted)) << "nothing else is known";
  End();
  for (int i = 0; i < 5; ++i) {
    Push({.collection = collection_, .filter = filter, .few_rows = true});
    RunOne();
  }
  Occupy(collection_);
  EXPECT_OK(TryPush(few));
  EXPECT_THAT(TryPush({.collection = collection_, .deadline_us = 15000}),
              StatusIs(kResourceExhausted));
}

// The engine answers different filters in one pass. Those that leave few rows do not wait for the
// scan of the others.
TEST_F(SearchWorkTest, SearchesWithDifferentFiltersShareAPass) {
  const auto one = std::make_shared<RowFilter>();
  const auto other = std::make_shared<RowFilter>();
  std::vector<int> numbers;
  for (const bool few_rows : {false, true}) {
    for (const auto& filter : {one, other, one}) {
      numbers.push_back(Push({.collection = collection_, .filter = filter, .few_rows = few_rows}));
    }
  }
  End();
  EXPECT_THAT(RunOne(), ElementsAre(numbers[0], numbers[1], numbers[2]));
  EXPECT_THAT(RunOne(), ElementsAre(numbers[3], numbers[4], numbers[5]));
}

}  // namespace
}  // namespace nearfield::server

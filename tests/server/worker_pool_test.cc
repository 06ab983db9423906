// Tests of the workers, whose queue is bounded.
#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "server/scheduler/retry_hint.h"
#include "server/scheduler/worker_pool.h"
#include "tests/server/prelude.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {
namespace {

TEST(WorkerPoolTest, RefusesBeyondItsBoundAndRunsTheRest) {
  testing::Gate gate;
  gate.Close();
  std::atomic<int> ran{0};
  {
    WorkerPool pool({.what = "verifications", .threads = 2, .waiting_max = 1});
    const auto job = [&] {
      gate.Pass();
      ++ran;
    };
    ASSERT_OK(pool.Post(job));
    ASSERT_OK(pool.Post(job));
    ASSERT_OK(pool.Post(job));
    const absl::Status refused = pool.Post(job);
    EXPECT_THAT(refused, FailsWith(kResourceExhausted, "too many verifications"));
    EXPECT_TRUE(RetryAfterMs(refused).has_value());
    gate.Open();
  }
  EXPECT_EQ(ran, 3);
}

// Regression: a caller that verified one answer after another was refused, because it got its
// answer before its place was free.
TEST(WorkerPoolTest, ThePlaceIsFreeBeforeTheCallerIsAnswered) {
  WorkerPool pool({.what = "verifications", .threads = 1, .waiting_max = 0});
  for (int i = 0; i < 200; ++i) {
    std::promise<void> answered;
    ASSERT_OK(pool.Post([] {}, [&] { answered.set_value(); }));
    answered.get_future().get();
  }
}

// Each of the two waits for the other.
TEST(WorkerPoolTest, AJobRunsBesideItsCaller) {
  WorkerPool pool({.what = "writes", .threads = 1, .waiting_max = 0});
  for (int i = 0; i < 200; ++i) {
    std::promise<void> job_runs;
    std::promise<void> caller_runs;
    bool done = false;
    pool.RunBeside(
        [&] {
          job_runs.set_value();
          caller_runs.get_future().get();
          done = true;
        },
        [&] {
          job_runs.get_future().get();
          caller_runs.set_value();
        });
    EXPECT_TRUE(done);
  }
}

TEST(WorkerPoolTest, AFullPoolLeavesTheJobToItsCaller) {
  testing::Gate gate;
  gate.Close();
  WorkerPool pool({.what = "writes", .threads = 1, .waiting_max = 0});
  ASSERT_OK(pool.Post([&] { gate.Pass(); }));
  std::vector<std::thread::id> ran;
  const auto run = [&] { ran.push_back(std::this_thread::get_id()); };
  pool.RunBeside(run, run);
  EXPECT_THAT(ran, ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
  gate.Open();
}

TEST(RetryHintTest, OnlyWhereItWasSet) {
  EXPECT_EQ(RetryAfterMs(absl::UnavailableError("x")), std::nullopt);
  EXPECT_EQ(RetryAfterMs(WithRetryAfter(absl::UnavailableError("x"), 250)), 250);
}

}  // namespace
}  // namespace nearfield::server

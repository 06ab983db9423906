// Tests of the turns that groups of jobs take on a pool.
#include "server/scheduler/turns.h"

#include <atomic>
#include <string>
#include <thread>

#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

class TurnsTest : public ::testing::Test {
 protected:
  // Posts a job that appends its name, whose first letter is its group. It is done once `done` is.
  void Post(const std::string& name, const std::atomic<bool>* done = nullptr) {
    ASSERT_OK(turns_.Post(pool_.get(), {.group = &groups_[static_cast<size_t>(name[0] - 'a')],
                                        .work = [this, name] { ran_ += name + " "; },
                                        .after = [] {},
                                        .is_done = [done] { return done != nullptr && *done; }}));
  }
  // Posts a job that runs until Open.
  void PostGate(const std::string& name) {
    ASSERT_OK(turns_.Post(pool_.get(), {.group = &groups_[static_cast<size_t>(name[0] - 'a')],
                                        .work =
                                            [this, name] {
                                              while (!open_) std::this_thread::yield();
                                              ran_ += name + " ";
                                            },
                                        .after = [] {},
                                        .is_done = [] { return false; }}));
  }
  // Opens the gate and returns the names in the order in which the jobs ran.
  std::string Ran() {
    open_ = true;
    pool_ = nullptr;  // runs all jobs
    return ran_;
  }

  char groups_[3] = {};
  std::atomic<bool> open_{false};
  std::string ran_;  // of the pool's thread
  Turns turns_;
  std::unique_ptr<WorkerPool> pool_ = std::make_unique<WorkerPool>(
      WorkerPool::Options{.what = "jobs", .threads = 1, .waiting_max = 6});
};

// One collection with a hundred slow updates made all other collections wait for all of them.
TEST_F(TurnsTest, AGroupWithManyJobsDelaysAnotherByOne) {
  PostGate("a1");
  for (const char* const name : {"a2", "a3", "a4", "b1", "b2", "c1"}) Post(name);
  EXPECT_EQ(Ran(), "a1 b1 c1 a2 b2 a3 a4 ");
}

TEST_F(TurnsTest, JobsThatAnEarlierOneDidRunInItsTurn) {
  PostGate("a1");
  Post("a2", &open_);
  Post("b1");
  Post("a3", &open_);
  Post("a4");
  Post("a5", &open_);
  EXPECT_EQ(Ran(), "a1 a2 a3 b1 a4 a5 ");
}

TEST_F(TurnsTest, AJobThatThePoolRefusesDoesNotRun) {
  WorkerPool full({.what = "jobs", .threads = 0, .waiting_max = 0});
  EXPECT_THAT(turns_.Post(&full, {.group = &groups_[0]}), FailsWith(kResourceExhausted, "jobs"));
  Post("a1");
  EXPECT_EQ(Ran(), "a1 ");
}

// Two threads never run jobs of one group at once.
TEST_F(TurnsTest, JobsOfAGroupRunOneAtATime) {
  std::atomic<int> running[3] = {};
  std::atomic<int> ran{0};
  {
    WorkerPool pool({.what = "jobs", .threads = 3, .waiting_max = 6});
    for (int i = 0; i < 3000; ++i) {
      const auto group = static_cast<size_t>(i % 3);
      ASSERT_OK(turns_.Post(&pool, {.group = &groups_[group],
                                    .work =
                                        [&running, group] {
                                          EXPECT_EQ(++running[group], 1);
                                          --running[group];
                                        },
                                    .after = [&ran] { ++ran; },
                                    .is_done = [i] { return i % 7 == 0; }}));
    }
  }
  EXPECT_EQ(ran, 3000);
}

}  // namespace
}  // namespace nearfield::server

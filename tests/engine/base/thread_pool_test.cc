#include "engine/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace nearfield {
namespace {

// Called by each participant: returns once all of them have called it. Run waits for every worker
// that has started.
class Meeting {
 public:
  explicit Meeting(int32_t participants) : missing_(participants) {}
  void Join() {
    missing_.fetch_sub(1);
    while (missing_.load() > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int32_t> missing_;
};

TEST(ThreadPoolTest, EveryParticipantRunsAtMostOnceAndItsWritesAreSeen) {
  ThreadPool pool(7);
  ASSERT_EQ(pool.threads_count(), 7);
  std::vector<int> runs(7);  // not atomic: Run orders the accesses
  for (int round = 0; round < 3000; ++round) {
    const int32_t participants = round % 7 + 1;
    const bool all = round % 3 == 0;
    Meeting meeting(participants);
    std::fill(runs.begin(), runs.end(), 0);
    pool.Run(participants, [&](int32_t worker) {
      ++runs[static_cast<size_t>(worker)];
      if (all) meeting.Join();
    });
    ASSERT_EQ(runs[0], 1) << "round " << round;
    for (int32_t w = 1; w < 7; ++w) {
      const int run = runs[static_cast<size_t>(w)];
      const int run_max = w < participants ? 1 : 0;
      ASSERT_LE(run, run_max) << "round " << round;
      ASSERT_GE(run, all ? run_max : 0) << "round " << round;
    }
  }
}

// The caller must not wait for a thread that wakes up after the work is done. With an empty body
// that is the usual case; the first worker that is left out ends the test.
TEST(ThreadPoolTest, AWorkerThatHasNotStartedIsNotAwaited) {
  ThreadPool pool(4);
  int32_t started = 4;
  while (started == 4) {
    std::atomic<int32_t> bodies{0};
    pool.Run(4, [&](int32_t /*worker*/) { bodies.fetch_add(1); });
    started = bodies.load();
  }
  EXPECT_GE(started, 1);
}

// Parts that a shared counter hands out are all done, and each of them once, whatever starts.
TEST(ThreadPoolTest, ACounterHandsOutAllPartsOnce) {
  constexpr int32_t kParts = 40;
  ThreadPool pool(5);
  std::vector<int> done(kParts);
  for (int round = 1; round <= 2000; ++round) {
    std::atomic<int32_t> next{0};
    pool.Run(5, [&](int32_t /*worker*/) {
      for (int32_t part; (part = next.fetch_add(1)) < kParts;) ++done[static_cast<size_t>(part)];
    });
    ASSERT_EQ(done, std::vector<int>(kParts, round));
  }
}

TEST(ThreadPoolTest, WorkerZeroIsTheCaller) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  Meeting meeting(3);
  pool.Run(3, [&](int32_t worker) {
    ids[static_cast<size_t>(worker)] = std::this_thread::get_id();
    meeting.Join();
  });
  EXPECT_EQ(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], ids[0]);
  EXPECT_NE(ids[2], ids[0]);
  EXPECT_NE(ids[1], ids[2]);
}

// All participants must be inside the body concurrently: a pool that ran them one after another
// would never return.
TEST(ThreadPoolTest, ParticipantsRunAtTheSameTime) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    Meeting meeting(4);
    std::atomic<int32_t> left{0};
    pool.Run(4, [&](int32_t /*worker*/) {
      meeting.Join();
      left.fetch_add(1);
    });
    EXPECT_EQ(left.load(), 4);
  }
}

// A worker that finishes long after the caller went to sleep must still wake it.
TEST(ThreadPoolTest, AnIdleCallerIsWoken) {
  ThreadPool pool(2);
  const auto hold = std::chrono::milliseconds(2);  // much longer than a waiting thread spins
  for (int round = 0; round < 20; ++round) {
    const auto end = std::chrono::steady_clock::now() + hold;
    bool done = false;
    Meeting meeting(2);
    pool.Run(2, [&](int32_t worker) {
      meeting.Join();
      if (worker == 0) return;
      while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
      done = true;
    });
    EXPECT_TRUE(done);
  }
}

// Fixed: a body that ran out of memory on a worker ended the process; on the caller's thread, the
// exception left Run while other workers still used the body, and the next Run started with a wrong
// number of running workers.
TEST(ThreadPoolTest, ABodyThatThrowsIsReportedAfterAllHaveReturnedAndTheNextRunWorks) {
  constexpr int32_t kThreads = 4;
  ThreadPool pool(kThreads);
  std::vector<int> runs(kThreads);
  for (int round = 0; round < 20; ++round) {
    for (uint32_t throwing = 1; throwing < 1u << kThreads; ++throwing) {
      std::fill(runs.begin(), runs.end(), 0);
      Meeting first(kThreads);
      Meeting second(kThreads);
      const auto body = [&](int32_t worker) {
        ++runs[static_cast<size_t>(worker)];
        first.Join();
        if ((throwing >> worker & 1) != 0) throw std::bad_alloc();
      };
      EXPECT_THROW(pool.Run(kThreads, body), std::bad_alloc) << "throwing workers: " << throwing;
      EXPECT_EQ(runs, std::vector<int>(kThreads, 1));
      pool.Run(kThreads, [&](int32_t worker) {
        ++runs[static_cast<size_t>(worker)];
        second.Join();
      });
      ASSERT_EQ(runs, std::vector<int>(kThreads, 2));
    }
  }
}

// The caller gets the body's exception, even if it is the only participant.
TEST(ThreadPoolTest, TheExceptionIsTheOneThatTheBodyThrew) {
  ThreadPool pool(3);
  for (int32_t thrower = 0; thrower < 3; ++thrower) {
    Meeting meeting(thrower + 1);
    try {
      pool.Run(thrower + 1, [&](int32_t worker) {
        meeting.Join();
        if (worker == thrower) throw thrower;
      });
      FAIL() << "nothing was thrown";
    } catch (const int& thrown) {
      EXPECT_EQ(thrown, thrower);
    }
  }
}

TEST(ThreadPoolTest, StartsAndEndsWithoutWork) {
  for (int32_t threads = 1; threads < 9; ++threads) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads_count(), threads);
  }
}

}  // namespace
}  // namespace nearfield

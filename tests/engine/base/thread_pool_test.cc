#include "engine/base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace nearfield {
namespace {

TEST(ThreadPoolTest, EveryParticipantRunsOnceAndItsWritesAreSeen) {
  ThreadPool pool(7);
  ASSERT_EQ(pool.threads_count(), 7);
  std::vector<int> runs(7);  // not atomic: Run orders the accesses
  for (int round = 0; round < 3000; ++round) {
    const int32_t participants = round % 7 + 1;
    std::fill(runs.begin(), runs.end(), 0);
    pool.Run(participants, [&](int32_t worker) { ++runs[static_cast<size_t>(worker)]; });
    for (int32_t w = 0; w < 7; ++w) {
      ASSERT_EQ(runs[static_cast<size_t>(w)], w < participants ? 1 : 0) << "round " << round;
    }
  }
}

TEST(ThreadPoolTest, WorkerZeroIsTheCaller) {
  ThreadPool pool(3);
  std::vector<std::thread::id> ids(3);
  pool.Run(3,
           [&](int32_t worker) { ids[static_cast<size_t>(worker)] = std::this_thread::get_id(); });
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
    std::atomic<int32_t> inside{0};
    pool.Run(4, [&](int32_t /*worker*/) {
      inside.fetch_add(1);
      while (inside.load() < 4) std::this_thread::yield();
    });
    EXPECT_EQ(inside.load(), 4);
  }
}

// A worker that finishes long after the caller went to sleep must still wake it.
TEST(ThreadPoolTest, AnIdleCallerIsWoken) {
  ThreadPool pool(2);
  const auto hold = std::chrono::milliseconds(2);  // much longer than a waiting thread spins
  for (int round = 0; round < 20; ++round) {
    const auto end = std::chrono::steady_clock::now() + hold;
    bool done = false;
    pool.Run(2, [&](int32_t worker) {
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
  for (int round = 0; round < 200; ++round) {
    for (uint32_t throwing = 1; throwing < 1u << kThreads; ++throwing) {
      std::fill(runs.begin(), runs.end(), 0);
      const auto body = [&](int32_t worker) {
        ++runs[static_cast<size_t>(worker)];
        if ((throwing >> worker & 1) != 0) throw std::bad_alloc();
      };
      EXPECT_THROW(pool.Run(kThreads, body), std::bad_alloc) << "throwing workers: " << throwing;
      EXPECT_EQ(runs, std::vector<int>(kThreads, 1));
      pool.Run(kThreads, [&](int32_t worker) { ++runs[static_cast<size_t>(worker)]; });
      ASSERT_EQ(runs, std::vector<int>(kThreads, 2));
    }
  }
}

// The caller gets the body's exception, also if it is the only participant.
TEST(ThreadPoolTest, TheExceptionIsTheOneThatTheBodyThrew) {
  ThreadPool pool(3);
  for (int32_t thrower = 0; thrower < 3; ++thrower) {
    try {
      pool.Run(thrower + 1, [&](int32_t worker) {
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

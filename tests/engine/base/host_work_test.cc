#include "engine/base/host_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace nearfield {
namespace {

constexpr int64_t kWorthAll = int64_t{1} << 30;

TEST(HostWorkTest, EveryPieceRunsOnce) {
  for (const int32_t threads : {1, 2, 4}) {
    HostWork work(threads);
    for (const int64_t count : {0, 1, 2, 3, 5, 1000}) {
      for (const int64_t bytes : {int64_t{0}, int64_t{1} << 19, kWorthAll}) {
        std::vector<std::atomic<int>> ran(static_cast<size_t>(count));
        const absl::Status status = work.ParallelFor(count, bytes, [&](int64_t i) {
          ++ran[static_cast<size_t>(i)];
          return absl::OkStatus();
        });
        EXPECT_TRUE(status.ok());
        for (const std::atomic<int>& times : ran) EXPECT_EQ(times.load(), 1);
      }
    }
  }
}

TEST(HostWorkTest, WhatIsWorthItRunsOnAllThreadsAtOnce) {
  HostWork work(3);
  std::latch together(3);
  const absl::Status status = work.ParallelFor(3, kWorthAll, [&](int64_t) {
    together.arrive_and_wait();
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(HostWorkTest, LittleWorkStaysOnTheCaller) {
  HostWork work(4);
  const std::thread::id caller = std::this_thread::get_id();
  const absl::Status status = work.ParallelFor(100, 1000, [&](int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok());
}

TEST(HostWorkTest, TheErrorOfTheLeastPieceIsTold) {
  HostWork work(4);
  const absl::Status status = work.ParallelFor(1000, kWorthAll, [&](int64_t i) {
    if (i % 300 != 299) return absl::OkStatus();
    return absl::InvalidArgumentError(std::to_string(i));
  });
  EXPECT_EQ(status, absl::InvalidArgumentError("299"));
}

TEST(HostWorkTest, LackOfMemoryIsAStatus) {
  HostWork work(2);
  const absl::Status status = work.ParallelFor(10, kWorthAll, [](int64_t i) -> absl::Status {
    if (i == 7) throw std::bad_alloc();
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(HostWorkTest, ASecondCallerWorksAlone) {
  HostWork work(2);
  const absl::Status status = work.ParallelFor(2, kWorthAll, [&](int64_t) {
    const std::thread::id caller = std::this_thread::get_id();
    return work.ParallelFor(2, kWorthAll, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      return absl::OkStatus();
    });
  });
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace nearfield

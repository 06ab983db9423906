// Tests of timers: each function is called once, in the order of the times, unless it is cancelled.
#include "server/scheduler/timers.h"
#include "tests/server/prelude.h"

#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace nearfield::server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(TimersTest, FunctionsAreCalledInTheOrderOfTheirTimes) {
  std::vector<int> called;  // by the thread of the timers only, until `last` is ready
  std::promise<void> last;
  Timers timers;
  timers.Start(milliseconds(0), [&] {
    // Both are started before the thread can look at them.
    timers.Start(milliseconds(2), [&] {
      called.push_back(2);
      last.set_value();
    });
    timers.Start(milliseconds(1), [&] { called.push_back(1); });
  });
  last.get_future().wait();
  EXPECT_THAT(called, ElementsAre(1, 2));
}

TEST(TimersTest, AnEarlierTimerIsCalledWhileALaterOneWaits) {
  std::promise<void> called;
  Timers timers;
  timers.Start(hours(1), [] { FAIL() << "called too early"; });
  timers.Start(milliseconds(1), [&] { called.set_value(); });
  called.get_future().wait();
}

TEST(TimersTest, ACancelledFunctionIsDroppedWithoutACall) {
  Timers timers;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  const Timers::Id id =
      timers.Start(hours(1), [held = std::move(held)] { FAIL() << "it was cancelled"; });
  EXPECT_FALSE(watched.expired());
  timers.Cancel(id);
  EXPECT_TRUE(watched.expired());
  timers.Cancel(id);
}

TEST(TimersTest, AFunctionMayStartAndCancelTimers) {
  std::promise<void> called;
  Timers timers;
  const Timers::Id late = timers.Start(hours(1), [] { FAIL() << "it was cancelled"; });
  timers.Start(milliseconds(0), [&] {
    timers.Cancel(late);
    timers.Start(milliseconds(0), [&] { called.set_value(); });
  });
  called.get_future().wait();
}

TEST(TimersTest, TheEndDropsWhatWaits) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  {
    Timers timers;
    timers.Start(hours(1), [held = std::move(held)] { FAIL() << "the timers ended"; });
  }
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace nearfield::server

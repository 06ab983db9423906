// Tests of unread replies: their calls are cancelled in time, and no others.
#include "server/scheduler/unread_replies.h"

#include <atomic>
#include <future>
#include <memory>

#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using std::chrono::milliseconds;

// Long enough that the thread itself never checks; the tests do.
constexpr milliseconds kLimit(4'000'000);

TEST(UnreadRepliesTest, OnlyWhatIsOverdueIsCancelledAndOnce) {
  FakeClock clock;
  UnreadReplies replies(kLimit, &clock);
  std::vector<int> cancelled;
  UnreadReplies::Watch first;
  UnreadReplies::Watch taken;
  UnreadReplies::Watch late;
  first.Begin(&replies, [&] { cancelled.push_back(1); });
  taken.Begin(&replies, [&] { cancelled.push_back(2); });
  clock.Advance(kLimit - milliseconds(1));
  late.Begin(&replies, [&] { cancelled.push_back(3); });
  replies.CancelOverdue();
  EXPECT_THAT(cancelled, ElementsAre());
  taken.End();
  clock.Advance(milliseconds(1));
  replies.CancelOverdue();
  replies.CancelOverdue();
  EXPECT_THAT(cancelled, ElementsAre(1));
  EXPECT_EQ(replies.cancelled_count(), 1);
}

TEST(UnreadRepliesTest, TheCancelMayEndTheWatchItself) {
  FakeClock clock;
  UnreadReplies replies(kLimit, &clock);
  auto watch = std::make_unique<UnreadReplies::Watch>();
  watch->Begin(&replies, [&] { watch.reset(); });
  clock.Advance(kLimit);
  replies.CancelOverdue();
  EXPECT_EQ(watch, nullptr);
  EXPECT_EQ(replies.cancelled_count(), 1);
}

// The objects that a cancel uses may be destroyed once its watch has ended.
TEST(UnreadRepliesTest, TheEndOfAWatchWaitsForItsCancel) {
  FakeClock clock;
  UnreadReplies replies(kLimit, &clock);
  std::promise<void> begun;
  std::promise<void> go_on;
  std::atomic<bool> over{false};
  UnreadReplies::Watch watch;
  watch.Begin(&replies, [&] {
    begun.set_value();
    go_on.get_future().wait();
    over = true;
  });
  clock.Advance(kLimit);
  auto looking = std::async(std::launch::async, [&] { replies.CancelOverdue(); });
  begun.get_future().wait();
  auto ending = std::async(std::launch::async, [&] {
    watch.End();
    return over.load();
  });
  EXPECT_EQ(ending.wait_for(milliseconds(200)), std::future_status::timeout)
      << "the cancel is not over";
  go_on.set_value();
  EXPECT_TRUE(ending.get());
  looking.get();
}

TEST(UnreadRepliesTest, TheThreadLooksByItself) {
  const SteadyClock clock;
  UnreadReplies replies(milliseconds(10), &clock);
  std::promise<void> cancelled;
  UnreadReplies::Watch watch;
  watch.Begin(&replies, [&] { cancelled.set_value(); });
  cancelled.get_future().wait();
}

}  // namespace
}  // namespace nearfield::server

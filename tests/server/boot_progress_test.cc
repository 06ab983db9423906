// Tests of BootProgress: the text for callers, and the estimate of the time left.
#include "server/rpc/boot_progress.h"

#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using Step = BootProgress::Step;

class BootProgressTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  BootProgress progress_{&clock_};
};

TEST_F(BootProgressTest, EachStepHasItsText) {
  EXPECT_EQ(progress_.Text(), "creating the engine");
  progress_.Begin(Step::kSelfTest);
  EXPECT_EQ(progress_.Text(), "running the self-test");
  progress_.Begin(Step::kLoading);
  EXPECT_EQ(progress_.Text(), "loading collections: 0 of 0");
  progress_.Report({.collections_count = 7, .bytes_total = 12'300'000'000});
  EXPECT_EQ(progress_.Text(), "loading collections: 0 of 7, 0% of 12.3 GB");
}

TEST_F(BootProgressTest, TheTimeLeftFollowsFromTheRateSoFar) {
  progress_.Begin(Step::kLoading);
  const BootProgress::Loading third = {.collections_loaded = 3,
                                       .collections_count = 7,
                                       .bytes_read = 4'000'000'000,
                                       .bytes_total = 12'000'000'000};
  progress_.Report(third);
  clock_.Advance(std::chrono::milliseconds(999));
  EXPECT_EQ(progress_.Get().seconds_left, std::nullopt) << "too early";
  clock_.Advance(std::chrono::milliseconds(9001));
  EXPECT_EQ(progress_.Get().seconds_left, 21);
  EXPECT_EQ(progress_.Text(), "loading collections: 3 of 7, 33% of 12 GB, about 21 s left");
  progress_.Report({.collections_loaded = 6,
                    .collections_count = 7,
                    .bytes_read = 12'000'000'001,
                    .bytes_total = 12'000'000'000});
  EXPECT_EQ(progress_.Get().seconds_left, 1) << "never below";
}

}  // namespace
}  // namespace nearfield::server

// Tests of the ledger of bytes that calls make the server hold.
#include "server/scheduler/memory_ledger.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/scheduler/retry_hint.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

ByteAccount::Options Replies(int64_t bytes_max = 1000, int64_t copies = 1) {
  return {.setting = "replies_bytes_max",
          .what = "replies",
          .advice = "read them",
          .bytes_max = bytes_max,
          .copies = copies,
          .caller_share = 0.8};
}

// Regression: bytes were counted only after the work was done, so that work in progress exceeded
// the limit.
TEST(ByteAccountTest, NothingIsAdmittedBeyondTheLimit) {
  ByteAccount account(Replies());
  ASSERT_OK_AND_ASSIGN(const auto large, account.Reserve("a", 900));
  const auto refused = account.Reserve("b", 101);
  EXPECT_THAT(refused,
              FailsWith(kResourceExhausted, "101 more", "900 in all", "replies_bytes_max is 1000"));
  EXPECT_THAT(RetryAfterMs(refused.status()), Optional(::testing::Gt(0)));
  EXPECT_OK(account.Reserve("b", 100));
  EXPECT_EQ(account.bytes(), 900) << "a hold that ends gives its bytes back";
}

TEST(ByteAccountTest, ACallerThatDoesNotReadIsHeldBackAndOthersAreNot) {
  ByteAccount account(Replies());
  ASSERT_OK_AND_ASSIGN(auto first, account.Reserve("slow", 400));
  ASSERT_OK_AND_ASSIGN(auto second, account.Reserve("slow", 400));
  EXPECT_THAT(account.Reserve("slow", 1), FailsWith(kResourceExhausted, "800 are held for this"));
  const auto other = account.Reserve("other", 200);
  EXPECT_OK(other);
  EXPECT_THAT(account.Reserve("third", 1), StatusIs(kResourceExhausted))
      << "nothing is left at all";
  first.Resize(10);
  EXPECT_EQ(account.bytes(), 610);
  ByteAccount::Hold moved = std::move(second);
  EXPECT_EQ(account.bytes(), 610);
  moved = ByteAccount::Hold();
  EXPECT_EQ(account.bytes(), 210);
  EXPECT_OK(account.Reserve("slow", 300));
}

TEST(ByteAccountTest, AHoldGrowsOnlyWhereThereIsRoom) {
  ByteAccount account(Replies());
  ASSERT_OK_AND_ASSIGN(auto hold, account.Reserve("a", 100));
  EXPECT_OK(hold.Grow(700));
  EXPECT_THAT(hold.Grow(1001), StatusIs(kResourceExhausted));
  EXPECT_EQ(hold.bytes(), 700);
  EXPECT_EQ(account.bytes(), 700);
  hold.Resize(1200);  // memory in use is counted even above the limit
  EXPECT_THAT(account.Reserve("b", 1), StatusIs(kResourceExhausted));
  hold.Resize(0);
  EXPECT_EQ(account.bytes(), 0);
}

// Regression: a reply is held twice, as a message and in serialized form, but only one copy was
// counted.
TEST(ByteAccountTest, EveryCopyCounts) {
  ByteAccount account(Replies(1000, /*copies=*/2));
  ASSERT_OK_AND_ASSIGN(auto hold, account.Reserve("a", 300));
  EXPECT_EQ(account.bytes(), 600);
  EXPECT_THAT(account.Reserve("b", 201), StatusIs(kResourceExhausted));
  hold.Resize(50);
  EXPECT_EQ(account.bytes(), 100);
}

// Regression: eight large requests, each with its own caller name, took the whole account. Every
// caller was refused until they ended.
TEST(ByteAccountTest, LargeHoldsUnderManyNamesLeaveRoomForOthers) {
  constexpr int64_t kLarge = 64 << 20;
  constexpr int64_t kSmall = 64 << 10;
  ByteAccount account(Replies(8 * kLarge));
  std::vector<ByteAccount::Hold> holds;
  for (int64_t bytes = kLarge; bytes > kSmall; bytes /= 2) {
    for (int i = 0; i < 64; ++i) {
      auto hold = account.Reserve(absl::StrCat("name ", bytes, " ", i), bytes);
      if (hold.ok()) holds.push_back(*std::move(hold));
    }
  }
  EXPECT_GE(account.bytes(), 7 * kLarge);
  EXPECT_LE(account.bytes(), 8 * kLarge - kLarge / 2) << "a sixteenth is kept";
  EXPECT_THAT(account.Reserve("honest", kSmall + 1), StatusIs(kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(auto small, account.Reserve("honest", kSmall));
  EXPECT_THAT(small.Grow(kSmall + 1), StatusIs(kResourceExhausted)) << "it is small no longer";
}

TEST(ByteAccountTest, AFirstHoldMayTakeAllWhereNothingElseIsHeldAndElseHalfOfWhatIsFree) {
  constexpr int64_t kAll = 16 << 20;
  ByteAccount account(Replies(kAll));
  EXPECT_OK(account.Reserve("lone", kAll));
  ASSERT_OK_AND_ASSIGN(const auto other, account.Reserve("other", kAll / 2));
  EXPECT_THAT(account.Reserve("new", kAll / 4 + 1), StatusIs(kResourceExhausted));
  EXPECT_OK(account.Reserve("new", kAll / 4));
}

}  // namespace
}  // namespace nearfield::server

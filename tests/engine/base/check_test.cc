#include "engine/base/check.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace nearfield {
namespace {

enum class Step : uint8_t { kFirst = 1, kSecond = 2 };

TEST(CheckTest, AConditionThatHoldsIsEvaluatedOnce) {
  int calls = 0;
  const auto next = [&calls] { return ++calls; };
  CHECK(next() == 1);
  CHECK_EQ(next(), 2);
  CHECK_NE(next(), 2);
  CHECK_LT(next(), 5);
  CHECK_LE(next(), 5);
  CHECK_GT(next(), 5);
  CHECK_GE(next(), 7);
  EXPECT_EQ(calls, 7);
}

TEST(CheckTest, ACheckIsOneStatement) {
  bool reached_else = false;
  if (reached_else)
    CHECK(false);
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, AFailedCheckPrintsItsPlaceAndConditionAndAborts) {
  const std::string text = "abc";
  EXPECT_DEATH(CHECK(text.empty()), "check_test.cc:[0-9]+: check failed: text.empty\\(\\)\n");
}

TEST(CheckDeathTest, AFailedComparisonAlsoPrintsBothValues) {
  const int64_t epoch = 7;
  EXPECT_DEATH(CHECK_EQ(epoch, epoch + 1), "check failed: epoch == epoch \\+ 1 \\(7 vs. 8\\)\n");
  EXPECT_DEATH(CHECK_NE(epoch, 7), "epoch != 7 \\(7 vs. 7\\)\n");
  EXPECT_DEATH(CHECK_LT(epoch, 7), "epoch < 7 \\(7 vs. 7\\)\n");
  EXPECT_DEATH(CHECK_LE(epoch, 6), "epoch <= 6 \\(7 vs. 6\\)\n");
  EXPECT_DEATH(CHECK_GT(epoch, 7), "epoch > 7 \\(7 vs. 7\\)\n");
  EXPECT_DEATH(CHECK_GE(epoch, 8), "epoch >= 8 \\(7 vs. 8\\)\n");
  EXPECT_DEATH(CHECK_EQ(std::string("a"), "b"), " \\(a vs. b\\)\n");
  EXPECT_DEATH(CHECK_EQ(Step::kFirst, Step::kSecond), " \\(1 vs. 2\\)\n");
}

#ifdef NDEBUG
TEST(CheckTest, ADebugCheckOfAReleaseBuildEvaluatesNothing) {
  int calls = 0;
  const auto next = [&calls] { return ++calls; };
  DCHECK(next() == 0);
  DCHECK_EQ(next(), 0);
  DCHECK_NE(next(), next());
  DCHECK_LT(next(), 0);
  DCHECK_LE(next(), 0);
  DCHECK_GT(0, next());
  DCHECK_GE(0, next());
  EXPECT_EQ(calls, 0);
}
#else
TEST(CheckDeathTest, ADebugCheckOfASanitizerBuildIsACheck) {
  EXPECT_DEATH(DCHECK(1 < 0), "check failed: 1 < 0\n");
  EXPECT_DEATH(DCHECK_EQ(1, 2), "1 == 2 \\(1 vs. 2\\)\n");
  EXPECT_DEATH(DCHECK_NE(1, 1), "1 != 1 \\(1 vs. 1\\)\n");
  EXPECT_DEATH(DCHECK_LT(1, 0), "1 < 0 \\(1 vs. 0\\)\n");
  EXPECT_DEATH(DCHECK_LE(1, 0), "1 <= 0 \\(1 vs. 0\\)\n");
  EXPECT_DEATH(DCHECK_GT(1, 2), "1 > 2 \\(1 vs. 2\\)\n");
  EXPECT_DEATH(DCHECK_GE(1, 2), "1 >= 2 \\(1 vs. 2\\)\n");
}
#endif

}  // namespace
}  // namespace nearfield

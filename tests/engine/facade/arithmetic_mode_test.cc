#include "engine/score/arithmetic_mode.h"

#include <cfenv>

#include "engine/engine_core.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

using score::CheckArithmeticMode;

TEST(ArithmeticMode, IsFineFromTheStart) { EXPECT_OK(CheckArithmeticMode()); }

TEST(ArithmeticMode, AnotherRoundingIsRefused) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const absl::Status status = CheckArithmeticMode();
    std::fesetround(FE_TONEAREST);
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("nearest")));
  }
}

#if defined(__SSE2__)
TEST(ArithmeticMode, FlushedDenormalsAreRefusedByEveryCallThatScores) {
  FakeEngine fake = MakeFakeEngine();
  const auto collection = *fake.engine->CreateCollection(kPlainSpec);
  const float query[2] = {1, 0};
  const uint32_t control = _mm_getcsr();
  for (const uint32_t bit : {0x8000u, 0x0040u}) {  // FTZ, DAZ
    _mm_setcsr(control | bit);
    const absl::Status status = CheckArithmeticMode();
    const absl::Status search = SearchOne(*fake.engine, *collection, query, 1).status();
    const absl::Status create =
        MakeEngine(MakeFakeBackend(std::make_shared<FakeDevice>(FakeDeviceOptions{})), {}, "")
            .status();
    _mm_setcsr(control);
    EXPECT_THAT(status, StatusIs(kFailedPrecondition, HasSubstr("MXCSR")));
    EXPECT_THAT(search, StatusIs(kFailedPrecondition, HasSubstr("MXCSR")));
    EXPECT_THAT(create, StatusIs(kFailedPrecondition, HasSubstr("MXCSR")));
  }
  EXPECT_OK(SearchOne(*fake.engine, *collection, query, 1));
}
#endif

}  // namespace
}  // namespace nearfield::testing

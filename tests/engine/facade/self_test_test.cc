#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/seed.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::testing {
namespace {

using absl::StatusCode;
using absl_testing::StatusIs;
using corpus::BestRows;
using ::testing::HasSubstr;

TEST(SelfTest, PassesOnARightBackendAndLeavesNoMemoryTaken) {
  const FakeEngine fake = MakeFakeEngine();
  for (uint64_t i = 0; i < 5; ++i) EXPECT_OK(fake.engine->SelfTest(TestSeed() + i));
  EXPECT_EQ(fake.engine->GetCapacity().device_bytes_used, 0);
  EXPECT_EQ(fake.engine->GetCapacity().host_bytes_used, 0);
}

TEST(SelfTest, PassesWithTheSmallestLimits) {
  FakeEngineOptions options;
  options.engine.k_max = 1;
  options.engine.batch_max = 1;
  EXPECT_OK(MakeFakeEngine(options).engine->SelfTest(TestSeed()));
}

TEST(SelfTest, FindsEachKindOfWrongAnswer) {
  const std::vector<std::pair<std::string, std::function<void(BestRows*)>>> faults = {
      {"a row lost",
       [](BestRows* best) {
         for (auto& query : *best) {
           query[0].push_back(query[0].back());
           query[0].erase(query[0].begin());
         }
       }},
      {"a score one ulp away",
       [](BestRows* best) {
         (*best)[0][0][0].score = std::nextafterf((*best)[0][0][0].score, 9.0f);
       }},
      {"two rows with each other's score",
       [](BestRows* best) {
         auto& list = best->back().back();
         if (list.size() > 1) std::swap(list[0].rank, list[1].rank);
       }},
  };
  for (const auto& [name, corrupt] : faults) {
    const FakeEngine fake = MakeFakeEngine();
    fake.device->CorruptAnswers(corrupt);
    EXPECT_THAT(fake.engine->SelfTest(TestSeed()),
                StatusIs(StatusCode::kDataLoss, HasSubstr("self-test: a wrong answer (dot, fp32")))
        << name;
  }
}

TEST(SelfTest, PassesOnTheErrorsOfTheDevice) {
  const FakeEngine fake = MakeFakeEngine();
  fake.device->FailAt(FakeCall::kSearch, 7, absl::InternalError("scripted"));
  EXPECT_THAT(fake.engine->SelfTest(TestSeed()), StatusIs(StatusCode::kInternal));
}

}  // namespace
}  // namespace nearfield::testing

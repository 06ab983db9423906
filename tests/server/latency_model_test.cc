// Tests of LatencyModel: outliers, extrapolation, expiry.
#include "server/scheduler/latency_model.h"

#include <cmath>

#include "tests/server/queue_fixture.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::server {
namespace {

constexpr PassKind kPlain = {.copies = false, .k_max = 10};

class LatencyModelTest : public ::testing::Test {
 protected:
  void Record(int64_t queries, double us, int times = 5) {
    for (int i = 0; i < times; ++i) {
      clock_.Advance(us);
      model_.Record(kPlain, queries, us, clock_.Now());
    }
  }
  double Predict(double queries) const { return model_.PredictUs(kPlain, queries); }

  FakeClock clock_;
  LatencyModel model_{50};
};

TEST_F(LatencyModelTest, BeforeAnyPassItIsTheFloor) {
  EXPECT_EQ(Predict(1), 50);
  EXPECT_EQ(Predict(1000), 50);
  EXPECT_EQ(Predict(0), 0);
  EXPECT_FALSE(model_.IsFresh(clock_.Now()));
}

TEST_F(LatencyModelTest, KnownPassesAreMetAndALineLiesBetweenThem) {
  for (const int queries : {1, 2, 4, 8, 16, 32, 64}) Record(queries, 1000 + 100 * queries);
  for (int queries = 1; queries <= 64; ++queries) {
    EXPECT_EQ(std::round(Predict(queries)), 1000 + 100 * queries);
  }
}

TEST_F(LatencyModelTest, FourOutliersOfFiveMakeNoDifferenceToAStepOfOne) {
  Record(8, 1000);
  Record(8, 500000, /*times=*/2);
  EXPECT_EQ(Predict(8), 1000);
  Record(8, 500000, /*times=*/1);
  EXPECT_EQ(Predict(8), 500000) << "three of five are no outliers";
}

TEST_F(LatencyModelTest, BeyondWhatIsKnownItGrowsBetweenNotAtAllAndInProportion) {
  Record(4, 1000);
  for (const int times : {2, 16, 256}) {
    EXPECT_THAT(Predict(4 * times), AllOf(Ge(1000), Le(1000 * times)));
    EXPECT_EQ(Predict(4 * times), 1000 * std::sqrt(times));
  }
  EXPECT_EQ(Predict(1), 500);
  EXPECT_THAT(LatencyModel(800).PredictUs(kPlain, 1), 800) << "never below the floor";
}

TEST_F(LatencyModelTest, MoreQueriesNeverTakeLess) {
  Record(1, 90000, /*times=*/1);
  Record(16, 2000);
  EXPECT_LE(Predict(1), 2000) << "the first pass was slow: one with more says so";
  for (int queries = 1; queries < 100; ++queries) EXPECT_LE(Predict(queries), Predict(queries + 1));
}

TEST_F(LatencyModelTest, WhatWasNotRenewedIsForgotten) {
  Record(1024, 900000);
  clock_.Advance(3e6);
  Record(512, 2000);
  EXPECT_LE(Predict(1024), 3000);
}

TEST_F(LatencyModelTest, APassThatWasGivenUpOnlyTeachesThatItTakesLonger) {
  Record(8, 1000);
  for (int i = 0; i < 3; ++i) model_.Record(kPlain, 8, 200, clock_.Now(), /*complete=*/false);
  EXPECT_EQ(Predict(8), 1000);
  for (int i = 0; i < 3; ++i) model_.Record(kPlain, 8, 5000, clock_.Now(), /*complete=*/false);
  EXPECT_EQ(Predict(8), 5000);
}

TEST_F(LatencyModelTest, KindsAreLearnedApartAndLendToEachOther) {
  const PassKind copies = {.copies = true, .k_max = 10};
  const PassKind deep = {.copies = false, .k_max = 4096};
  Record(8, 1000);
  EXPECT_EQ(model_.PredictUs(copies, 8), 1000);
  for (int i = 0; i < 5; ++i) model_.Record(copies, 8, 9000, clock_.Now());
  EXPECT_EQ(model_.PredictUs(copies, 8), 9000);
  EXPECT_EQ(Predict(8), 1000);
  EXPECT_EQ(model_.PredictUs(deep, 8), 1000);
}

TEST_F(LatencyModelTest, AProbeIsGivenOnceASecond) {
  EXPECT_TRUE(model_.TakeProbe(clock_.Now()));
  EXPECT_FALSE(model_.TakeProbe(clock_.Now()));
  clock_.Advance(1.5e6);
  EXPECT_TRUE(model_.TakeProbe(clock_.Now()));
}

class LatencyModelsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Collection> NewCollection(ScanChoice scan = ScanChoice::kAuto) {
    return *engine_->CreateCollection({.dim = 2, .scan = scan});
  }

  std::unique_ptr<Engine> engine_ =
      testing::MakeScriptedEngine(std::make_shared<testing::EngineScript>());
};

TEST_F(LatencyModelsTest, ACollectionThatIsGoneIsForgottenThoughItsAddressIsReused) {
  LatencyModels model;
  auto first = NewCollection();
  model.Add(first, 7);
  ASSERT_NE(model.Find(first), nullptr);
  EXPECT_EQ(model.Find(first)->PredictUs(kPlain, 1), 7);
  // Another owner at the same address.
  const std::shared_ptr<const Collection> same_address(std::shared_ptr<void>(), first.get());
  first.reset();
  EXPECT_EQ(model.Find(same_address), nullptr);
}

TEST_F(LatencyModelsTest, TheNumberOfCollectionsIsBounded) {
  LatencyModels model;
  std::vector<std::shared_ptr<Collection>> alive;
  for (int i = 0; i < 5000; ++i) {
    alive.push_back(NewCollection());
    model.Add(alive.back(), 0);
  }
  EXPECT_LE(model.size(), 4096u);
  alive.clear();
  const auto last = NewCollection();
  model.Add(last, 0);
  EXPECT_EQ(model.size(), 1u);
}

TEST_F(LatencyModelsTest, TheFloorIsWhatTheDeviceReadsAtBest) {
  const auto rows = NewCollection(ScanChoice::kRows);
  EXPECT_EQ(PassFloorUs(*rows, 0), 0);
  EXPECT_EQ(PassFloorUs(*rows, 1e6), 0) << "no rows";
  const testing::Corpus three = testing::PlainRows({1, 2, 3}, {1, 1, 1});
  ASSERT_OK(testing::UploadAll(*rows, three));
  EXPECT_EQ(PassFloorUs(*rows, 1e6), 24);
  const auto codes = NewCollection(ScanChoice::kInt8);
  ASSERT_OK(testing::UploadAll(*codes, three));
  EXPECT_EQ(PassFloorUs(*codes, 1e6), 6);
}

}  // namespace
}  // namespace nearfield::server

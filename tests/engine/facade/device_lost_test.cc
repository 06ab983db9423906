// Tests that calls return Unavailable after the device is lost.

#include <cstdint>
#include <memory>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

class EngineDeviceLostTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(UploadAll(*collection_, PlainRows({1, 2}, {1, 2}))); }

  absl::Status Search() { return SearchOne(*fake_.engine, *collection_, vector_, 1).status(); }

  void ExpectEverythingUnavailable(Upload& upload) {
    const auto unavailable = StatusIs(kUnavailable);
    const Corpus rows = PlainRows({7}, {7});
    EXPECT_THAT(fake_.engine->Health(), unavailable);
    EXPECT_THAT(Search(), unavailable);
    EXPECT_THAT(fake_.engine->CreateCollection(kPlainSpec), unavailable);
    EXPECT_THAT(collection_->BeginUpload({.rows_max = 1}), unavailable);
    EXPECT_THAT(upload.Append({.ids = &rows.ids, .rows = rows.rows}), unavailable);
    EXPECT_THAT(upload.Commit(), unavailable);
    EXPECT_THAT(collection_->Delete(Ids({1})), unavailable);
    EXPECT_THAT(collection_->Fetch(Ids({1}), {}), unavailable);
    EXPECT_THAT(fake_.engine->Verify(*collection_,
                                     {.query = {.vector = vector_, .row_id = {}, .k = 1},
                                      .neighbors = Neighbors(),
                                      .epoch = 1},
                                     {}),
                unavailable);
    EXPECT_THAT(fake_.engine->SelfTest(1), unavailable);
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  const std::vector<float> vector_ = {1, 0};
};

TEST_F(EngineDeviceLostTest, ALossDuringASearchIsPermanent) {
  auto upload = *collection_->BeginUpload({.rows_max = 1});
  EXPECT_OK(fake_.engine->Health());
  fake_.device->FailAt(FakeCall::kSearch, 1, absl::UnavailableError("scripted"));
  EXPECT_THAT(Search(), StatusIs(kUnavailable, HasSubstr("scripted")));
  ExpectEverythingUnavailable(*upload);
}

TEST_F(EngineDeviceLostTest, ALossBetweenCallsIsSeen) {
  auto upload = *collection_->BeginUpload({.rows_max = 1});
  fake_.device->Lose();
  ExpectEverythingUnavailable(*upload);
}

TEST_F(EngineDeviceLostTest, ALossWhileRowsAreReadIsPermanent) {
  auto upload = *collection_->BeginUpload({.rows_max = 1});
  fake_.device->FailAt(FakeCall::kRead, 1, absl::UnavailableError("scripted"));
  EXPECT_THAT(collection_->Fetch(Ids({1}), {.vectors = true, .payloads = false}),
              StatusIs(kUnavailable));
  ExpectEverythingUnavailable(*upload);
}

TEST_F(EngineDeviceLostTest, ACommitOnALostDevicePublishesNothing) {
  const Corpus rows = PlainRows({7}, {7});
  auto upload = *collection_->BeginUpload({.rows_max = 1});
  ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
  fake_.device->FailAt(FakeCall::kSeal, 1, absl::UnavailableError("scripted"));
  EXPECT_THAT(upload->Commit(), StatusIs(kUnavailable));
  EXPECT_EQ(collection_->Stats().epoch, 1u);
  EXPECT_EQ(collection_->Stats().rows_count, 2);
}

}  // namespace
}  // namespace nearfield::testing

// Tests that Verify accepts only the right answer.
#include "engine/search/verify.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/corpus/corpus.h"
#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK(UploadAll(*collection_, PlainRows({10, 11, 12, 13}, {4, 3, 3, 1})));
    ASSERT_OK(UploadAll(*collection_, PlainRows({20, 21}, {9, 2})));
    ASSERT_OK(collection_->Delete(Ids({20})));
    right_.ids = Ids({10, 11, 12, 21});
    right_.scores = {4, 3, 3, 2};
  }

  absl::StatusOr<VerifyResult> Check(const Neighbors& claimed, uint64_t epoch = 3) {
    return fake_.engine->Verify(*collection_,
                                {.query = query_, .neighbors = claimed, .epoch = epoch}, {});
  }
  void ExpectDifference(const Neighbors& claimed, int64_t place, const std::string& explanation) {
    ASSERT_OK_AND_ASSIGN(const auto verdict, Check(claimed));
    EXPECT_FALSE(verdict.equal);
    EXPECT_EQ(verdict.first_difference, place);
    EXPECT_EQ(verdict.explanation, explanation);
    EXPECT_THAT(verdict.expected, BytesEqual(right_));
  }

  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  const std::vector<float> vector_ = {1, 0};
  const Query query_ = {.vector = vector_, .row_id = {}, .k = 4};
  Neighbors right_;
};

TEST_F(VerifyTest, TheRightAnswerIsEqual) {
  ASSERT_OK_AND_ASSIGN(const auto verdict, Check(right_));
  EXPECT_TRUE(verdict.equal) << verdict.explanation;
  EXPECT_EQ(verdict.explanation, "");
  EXPECT_EQ(verdict.first_difference, -1);
  EXPECT_EQ(verdict.rows_checked, 5);
  EXPECT_EQ(verdict.epoch, 3u);
  EXPECT_THAT(verdict.expected, BytesEqual(right_));
}

TEST_F(VerifyTest, SwappedIdsOfATieAreFound) {
  Neighbors wrong = right_;
  wrong.ids = Ids({10, 12, 11, 21});
  ExpectDifference(
      wrong, 1, "place 1: claimed id 12 score 3 (0x40400000), oracle id 11 score 3 (0x40400000)");
}

TEST_F(VerifyTest, AScoreOneUlpAwayIsFound) {
  Neighbors wrong = right_;
  wrong.scores.Mutable()[3] = std::nextafterf(2.0f, 3.0f);
  ExpectDifference(
      wrong, 3,
      "place 3: claimed id 21 score 2.00000024 (0x40000001), oracle id 21 score 2 (0x40000000)");
}

TEST_F(VerifyTest, MinusZeroIsNotZero) {
  Neighbors claimed;
  claimed.ids = Ids({10});
  claimed.scores = {-0.0f};
  const std::vector<float> zero = {0, 0};
  ASSERT_OK_AND_ASSIGN(
      const auto verdict,
      fake_.engine->Verify(
          *collection_,
          {.query = {.vector = zero, .row_id = {}, .k = 1}, .neighbors = claimed, .epoch = 3}, {}));
  EXPECT_FALSE(verdict.equal);
  EXPECT_EQ(verdict.explanation,
            "place 0: claimed id 10 score -0 (0x80000000), oracle id 10 score 0 (0x00000000)");
}

TEST_F(VerifyTest, AMissingRowIsFound) {
  Neighbors wrong;
  wrong.ids = Ids({10, 11, 12});
  wrong.scores = {4, 3, 3};
  ExpectDifference(wrong, 3,
                   "place 3: claimed nothing (3 neighbors), oracle id 21 score 2 (0x40000000)");
}

TEST_F(VerifyTest, ARowTooManyIsFound) {
  Neighbors wrong = right_;
  wrong.ids.AppendNumber(13);
  wrong.scores.push_back(1);
  ExpectDifference(wrong, 4,
                   "place 4: claimed id 13 score 1 (0x3f800000), oracle nothing (4 neighbors)");
}

TEST_F(VerifyTest, ADeletedRowIsFound) {
  Neighbors wrong;
  wrong.ids = Ids({20, 10, 11, 12});
  wrong.scores = {9, 4, 3, 3};
  ExpectDifference(
      wrong, 0, "place 0: claimed id 20 score 9 (0x41100000), oracle id 10 score 4 (0x40800000)");
}

TEST_F(VerifyTest, ClaimsThatCannotBeCheckedAreRefused) {
  EXPECT_THAT(Check(right_, 2),
              StatusIs(kFailedPrecondition, AllOf(HasSubstr("epoch 2"), HasSubstr("epoch 3"))));
  Neighbors odd = right_;
  odd.scores.Mutable().pop_back();
  EXPECT_THAT(Check(odd), StatusIs(kInvalidArgument, HasSubstr("4 ids and 3 scores")));
  Neighbors strings;
  strings.ids = IdColumn(IdType::kString);
  EXPECT_THAT(Check(strings), StatusIs(kInvalidArgument, HasSubstr("claimed.ids")));
  const Query bad = {.vector = vector_, .row_id = {}, .k = 0};
  EXPECT_THAT(
      fake_.engine->Verify(*collection_, {.query = bad, .neighbors = right_, .epoch = 3}, {}),
      StatusIs(kInvalidArgument, HasSubstr("k = 0")));
}

// An answer can be checked for as long as its epoch has a holder.
TEST_F(VerifyTest, APinnedEpochIsCheckedWhateverCameLater) {
  const std::shared_ptr<const PinnedEpoch> pinned = collection_->PinEpoch();
  ASSERT_OK(collection_->Delete(Ids({10})));
  ASSERT_OK(UploadAll(*collection_, PlainRows({30}, {100})));
  EXPECT_THAT(Check(right_), StatusIs(kFailedPrecondition));
  ASSERT_OK_AND_ASSIGN(
      const auto verdict,
      fake_.engine->Verify(*collection_,
                           {.query = query_, .neighbors = right_, .epoch = 3, .at = pinned}, {}));
  EXPECT_TRUE(verdict.equal) << verdict.explanation;
  const std::shared_ptr<Collection> other = *fake_.engine->CreateCollection(kPlainSpec);
  EXPECT_THAT(fake_.engine->Verify(
                  *other, {.query = query_, .neighbors = right_, .epoch = 3, .at = pinned}, {}),
              StatusIs(kInvalidArgument, HasSubstr("another collection")));
}

TEST_F(VerifyTest, CancellationIsPolled) {
  EXPECT_THAT(fake_.engine->Verify(*collection_, {.query = query_, .neighbors = right_, .epoch = 3},
                                   [] { return true; }),
              StatusIs(kCancelled));
}

// The host holds one chunk at a time; the verdict does not depend on the chunk size.
TEST(VerifyChunks, AnyChunkSizeGivesTheSameExpectedAnswer) {
  FakeEngine fake = MakeFakeEngine();
  const CollectionSpec spec = {.dim = 3, .metric = Metric::kL2, .id_type = IdType::kString};
  const Corpus all = MakeCorpus(spec, CorpusFamily::kDuplicates, 50, TestSeed());
  const auto collection = *fake.engine->CreateCollection(spec);
  const std::vector<int64_t> indices = AllIndices(50);
  ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(0, 33))));
  ASSERT_OK(UploadAll(*collection, Select(all, absl::MakeConstSpan(indices).subspan(33))));
  const auto* const corpus = dynamic_cast<const corpus::Corpus*>(collection.get());
  ASSERT_NE(corpus, nullptr);
  for (const bool by_id : {false, true}) {
    std::vector<int64_t> others = indices;
    if (by_id) others.erase(others.begin() + 40);
    const std::vector<float> vector = Decode(spec, all.row(40));
    const Neighbors right = OracleAnswer(Select(all, others), vector, 20);
    Query query = {.vector = vector, .row_id = {}, .k = 20};
    if (by_id) query = {.vector = {}, .row_id = all.ids.at(40), .k = 20};
    for (const int64_t staging_bytes : {int64_t{1}, int64_t{12}, int64_t{100}, int64_t{1} << 20}) {
      ASSERT_OK_AND_ASSIGN(const auto verdict,
                           VerifyClaim(*corpus, {.query = query, .neighbors = right, .epoch = 2},
                                       100, staging_bytes, {}));
      EXPECT_TRUE(verdict.equal) << verdict.explanation;
      EXPECT_EQ(verdict.rows_checked, by_id ? 49 : 50);
    }
  }
}

}  // namespace
}  // namespace nearfield::testing

// Tests of row terms by slot: rows whose ordinals are in many runs, and rows that were updated.
#include "engine/corpus/slot_terms.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/corpus/corpus.h"
#include "engine/score/row_terms.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

// A collection of which about half of the rows were deleted, some updated, and the rest merged.
class SlotTermsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (uint64_t part = 0; part < 4; ++part) {
      std::vector<uint64_t> ids, doomed;
      for (uint64_t id = 700 * part; id < 700 * (part + 1); ++id) {
        ids.push_back(id);
        if (random_.OneIn(2)) doomed.push_back(id);
      }
      ASSERT_OK(UploadAll(*collection_, PlainRows(ids, std::vector<float>(ids.size(), 1.0f))));
      ASSERT_OK(collection_->Delete(Ids(doomed)));
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(collection_->Compact({.dead_share_max = 0.0, .generations_max = 2}));
    }
    ASSERT_OK_AND_ASSIGN(const auto live, collection_->ReadInOrder({.rows_max = 10'000}));
    RowChanges changes = {.ids = IdColumn(IdType::kUint64), .payloads = {}, .epochs = 1};
    for (int64_t row = 0; row < live.found.ids.size(); ++row) {
      if (random_.OneIn(20)) changes.ids.AppendFrom(live.found.ids, row);
    }
    ASSERT_OK(collection_->Update(
        [&](const auto&) -> absl::StatusOr<RowChanges> { return changes; }, nullptr));
    snapshot_ = static_cast<corpus::Corpus&>(*collection_).Pin();
  }

  // Returns terms whose largest numbers are those of a few rows.
  std::shared_ptr<const RowTerms> Terms() {
    std::vector<double> numbers(5'000);
    for (double& number : numbers) {
      number = random_.OneIn(300) ? 1'000.0 * random_.Unit() : random_.Unit();
      if (random_.OneIn(300)) number = std::numeric_limits<double>::quiet_NaN();
    }
    const auto filter = std::make_shared<RowFilter>();
    filter->chosen.assign(70, 0);
    for (int i = 0; i < 5; ++i) filter->chosen[static_cast<size_t>(random_.Between(0, 70))] = 1;
    auto terms = std::make_shared<RowTerms>();
    terms->terms.push_back({.parameters = {.missing = 77.0},
                            .numbers = std::make_shared<RowNumbers>(std::move(numbers))});
    terms->terms.push_back(
        {.parameters = {.form = TermForm::kIs, .weight = 5'000.0}, .filter = filter});
    return terms;
  }

  Random random_{TestSeed()};
  FakeEngine fake_ = MakeFakeEngine();
  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(kPlainSpec);
  std::shared_ptr<const corpus::CorpusSnapshot> snapshot_;
};

TEST_F(SlotTermsTest, TheSumOfARowReadsItsOrdinalOfThisEpoch) {
  const auto terms = Terms();
  const corpus::SlotTerms slots(*snapshot_, terms);
  for (size_t g = 0; g < snapshot_->generations.size(); ++g) {
    const corpus::GenerationState& state = snapshot_->generations[g];
    for (uint32_t slot = 0; slot < state.generation->rows_count(); ++slot) {
      const uint32_t ordinal = state.ordinal(slot);
      const double number = terms->terms[0].numbers->at(ordinal);
      const double first = score::IsNumber(number) ? number : 77.0;
      ASSERT_EQ(slots.SumOf(g, slot),
                first + (terms->terms[1].filter->Chooses(ordinal) ? 5'000.0 : 0.0));
    }
  }
}

TEST_F(SlotTermsTest, TheSumAddsTermsInTheirOrder) {
  const auto terms = std::make_shared<RowTerms>();
  for (const double number : {0x1p60, -0x1p60, 1.0}) {
    terms->terms.push_back(
        {.numbers = std::make_shared<RowNumbers>(std::vector<double>(5'000, number))});
  }
  const corpus::SlotTerms slots(*snapshot_, terms);
  EXPECT_EQ(slots.SumOf(0, 0), 1.0);
  EXPECT_EQ(slots.SumUpper(0, 0, 10), 1.0);
}

TEST_F(SlotTermsTest, NoRowOfARangeExceedsItsUpperSum) {
  bool updated = false;
  for (int i = 0; i < 20; ++i) {
    const corpus::SlotTerms slots(*snapshot_, Terms());
    for (size_t g = 0; g < snapshot_->generations.size(); ++g) {
      const corpus::GenerationState& state = snapshot_->generations[g];
      updated = updated || state.versions != nullptr;
      const int64_t rows_count = state.generation->rows_count();
      for (int64_t begin = 0; begin < rows_count;) {
        const int64_t count = std::min(random_.Between(1, 400), rows_count - begin);
        const double upper = slots.SumUpper(g, begin, count);
        for (int64_t slot = begin; slot < begin + count; ++slot) {
          ASSERT_LE(slots.SumOf(g, static_cast<uint32_t>(slot)), upper) << slot;
        }
        begin += count;
      }
    }
  }
  EXPECT_TRUE(updated);
}

// A device computes the sums from copies of the numbers.
TEST_F(SlotTermsTest, CopiedNumbersAreThoseOfTheRows) {
  const auto terms = Terms();
  const corpus::SlotTerms slots(*snapshot_, terms);
  for (size_t g = 0; g < snapshot_->generations.size(); ++g) {
    const corpus::GenerationState& state = snapshot_->generations[g];
    for (int i = 0; i < 20; ++i) {
      const int64_t begin = random_.Between(0, state.generation->rows_count());
      const int64_t count = random_.Between(1, state.generation->rows_count() - begin + 1);
      std::vector<std::vector<double>> numbers(slots.terms_count());
      for (size_t term = 0; term < numbers.size(); ++term) {
        numbers[term].resize(static_cast<size_t>(count));
        slots.CopyNumbers(term, g, begin, absl::MakeSpan(numbers[term]));
      }
      for (int64_t row = 0; row < count; ++row) {
        score::TermSum sum;
        for (size_t term = 0; term < numbers.size(); ++term) {
          sum.Add(score::TermOf(slots.parameters(term), numbers[term][static_cast<size_t>(row)]));
        }
        ASSERT_EQ(sum.value(), slots.SumOf(g, static_cast<uint32_t>(begin + row)));
      }
    }
  }
}

// A device may keep numbers of an equal source.
TEST_F(SlotTermsTest, ASourceChangesWithEverythingThatItsNumbersDependOn) {
  const auto terms = Terms();
  const corpus::SlotTerms slots(*snapshot_, terms);
  EXPECT_TRUE(slots.SourceOf(0, 0) == corpus::SlotTerms(*snapshot_, terms).SourceOf(0, 0));
  EXPECT_FALSE(slots.SourceOf(0, 0) == slots.SourceOf(1, 0));  // other numbers
  if (snapshot_->generations.size() > 1) {
    EXPECT_FALSE(slots.SourceOf(0, 0) == slots.SourceOf(0, 1));
  }
  corpus::CorpusSnapshot updated = *snapshot_;
  updated.generations[0].versions = std::make_shared<corpus::RowVersions>();
  EXPECT_FALSE(slots.SourceOf(0, 0) == corpus::SlotTerms(updated, terms).SourceOf(0, 0));
  const backend::NumbersSource gone = corpus::SlotTerms(*snapshot_, Terms()).SourceOf(0, 0);
  EXPECT_TRUE(gone.expired());
  EXPECT_FALSE(slots.SourceOf(0, 0).expired());
}

}  // namespace
}  // namespace nearfield::testing

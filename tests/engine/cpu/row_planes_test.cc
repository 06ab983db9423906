// Tests the row planes of the CPU backend: stored bytes, memory accounting and refused calls.

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/row_planes.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"

namespace nearfield::cpu {
namespace {

std::vector<uint32_t> Ranks(int64_t count) {
  std::vector<uint32_t> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

Corpus RandomCorpus(int32_t dim, RowType row_type, int64_t rows_count, Random& random) {
  const CollectionSpec spec = {.dim = dim, .row_type = row_type};
  return MakeCorpus(spec, CorpusFamily::kBitPatterns, rows_count, random.Bits());
}

TEST(RowPlanesTest, RowsComeBackAsAppendedHoweverTheyWereCut) {
  Random random(TestSeed());
  const auto backend = MakeBackend("", 3);
  for (const RowType row_type : kRowTypes) {
    for (const int32_t dim : {1, 31, 32, 33, 100}) {
      // At dim = 100 the blocks are large enough for several threads.
      const int64_t rows = dim == 100 ? 20'000 : random.Between(1, 300);
      const Corpus corpus = RandomCorpus(dim, row_type, rows, random);
      ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(testing::FormatOf(corpus.spec), rows + 5));
      for (int64_t begin = 0; begin < rows;) {
        const int64_t block = std::min(rows - begin, random.Between(1, rows + 1));
        ASSERT_OK(planes->Append(corpus.rows.data() + begin * corpus.row_bytes(), block));
        begin += block;
      }
      ASSERT_OK(planes->Seal({.ranks = Ranks(rows)}));
      EXPECT_EQ(planes->rows_count(), rows);

      std::vector<uint8_t> all(corpus.rows.size());
      ASSERT_OK(planes->ReadRange(0, rows, all.data()));
      EXPECT_EQ(all, corpus.rows);
      std::vector<uint32_t> slots;
      std::vector<int64_t> indices;
      for (int i = 0; i < 20; ++i) {
        indices.push_back(random.Between(0, rows));
        slots.push_back(static_cast<uint32_t>(indices.back()));
      }
      std::vector<uint8_t> some(slots.size() * static_cast<size_t>(corpus.row_bytes()));
      ASSERT_OK(planes->Read(slots, some.data()));
      std::vector<uint8_t> want;
      for (const int64_t index : indices) {
        want.insert(want.end(), corpus.row(index).begin(), corpus.row(index).end());
      }
      EXPECT_EQ(some, want);
    }
  }
}

TEST(RowPlanesTest, SquaresEqualTheReferenceWhoeverComputedThem) {
  Random random(TestSeed());
  const auto backend = MakeBackend("", 3);
  const Corpus corpus = RandomCorpus(40, RowType::kFloat16, 20'000, random);
  ASSERT_OK_AND_ASSIGN(auto planes,
                       backend->Reserve(testing::FormatOf(corpus.spec), corpus.rows_count()));
  ASSERT_OK(planes->Append(corpus.rows.data(), corpus.rows_count()));
  ASSERT_OK(planes->Seal({.ranks = Ranks(corpus.rows_count())}));
  std::vector<uint32_t> slots;
  for (int64_t i = 0; i < 100; ++i) {
    slots.push_back(static_cast<uint32_t>(random.Between(0, corpus.rows_count())));
  }
  ASSERT_OK_AND_ASSIGN(auto copy, backend->Reserve(testing::FormatOf(corpus.spec), 100));
  ASSERT_OK(copy->AppendFrom(*planes, slots));
  ASSERT_OK(copy->Seal({.ranks = Ranks(100)}));
  const auto& original_planes = static_cast<const CpuRowPlanes&>(*planes);
  const auto& copied_planes = static_cast<const CpuRowPlanes&>(*copy);
  for (size_t i = 0; i < slots.size(); ++i) {
    const std::vector<float> row = testing::Decode(corpus.spec, corpus.row(slots[i]));
    const double want = testing::ReferenceSum(SumKind::kProduct, row, row);
    EXPECT_EQ(original_planes.squares()[slots[i]], want);
    EXPECT_EQ(copied_planes.squares()[i], want);
  }
  std::vector<uint8_t> got(100 * static_cast<size_t>(corpus.row_bytes()));
  ASSERT_OK(copy->ReadRange(0, 100, got.data()));
  std::vector<uint8_t> want(got.size());
  ASSERT_OK(planes->Read(slots, want.data()));
  EXPECT_EQ(got, want);
}

// Rows that are merged into another generation keep their codes, byte for byte.
TEST(RowPlanesTest, CodesSurviveBeingAppendedFromOtherPlanes) {
  Random random(TestSeed());
  const auto backend = MakeBackend("", 3);
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    Corpus corpus = RandomCorpus(70, RowType::kFloat32, 5000, random);
    corpus.spec.metric = metric;
    corpus.spec.scan = ScanChoice::kInt8;
    ASSERT_OK_AND_ASSIGN(auto planes,
                         backend->Reserve(testing::FormatOf(corpus.spec), corpus.rows_count()));
    // All threads encode large blocks; the caller alone encodes small ones.
    ASSERT_OK(planes->Append(corpus.rows.data(), 4900));
    ASSERT_OK(planes->Append(corpus.rows.data() + 4900 * corpus.row_bytes(), 100));
    ASSERT_OK(planes->Seal({.ranks = Ranks(corpus.rows_count())}));
    std::vector<uint32_t> slots;
    for (int i = 0; i < 200; ++i) {
      slots.push_back(static_cast<uint32_t>(random.Between(0, corpus.rows_count())));
    }
    ASSERT_OK_AND_ASSIGN(auto copy, backend->Reserve(testing::FormatOf(corpus.spec), 200));
    ASSERT_OK(copy->AppendFrom(*planes, slots));
    ASSERT_OK(copy->Seal({.ranks = Ranks(200)}));
    const auto& from = static_cast<const CpuRowPlanes&>(*planes);
    const auto& to = static_cast<const CpuRowPlanes&>(*copy);
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto slot = static_cast<int64_t>(i);
      EXPECT_EQ(std::memcmp(to.code_tile(slot, 1).codes, from.code_tile(slots[i], 1).codes,
                            static_cast<size_t>(from.code_stride())),
                0);
      EXPECT_EQ(std::memcmp(to.bounds() + i, from.bounds() + slots[i], sizeof(bound::RowBound)), 0);
      EXPECT_TRUE(std::any_of(to.code_tile(slot, 1).codes, to.code_tile(slot, 1).codes + 70,
                              [](uint8_t code) { return code != 0; }));
    }
    // Codes serve only the metric that they were made for.
    Corpus other = corpus;
    other.spec.metric = metric == Metric::kDot ? Metric::kL2 : Metric::kDot;
    ASSERT_OK_AND_ASSIGN(auto mixed, backend->Reserve(testing::FormatOf(other.spec), 1));
    EXPECT_THAT(mixed->AppendFrom(*planes, {0}),
                StatusIs(kInvalidArgument, HasSubstr("other codes")));
  }
}

TEST(RowPlanesTest, TheBudgetCountsCodesAndTheirBounds) {
  constexpr int64_t kRowBytes = 96 * 4 + 12 + 128 + 16;  // 65 elements: two lines of codes
  const auto backend = MakeBackend("", 3, 10 * kRowBytes);
  backend::RowFormat format;
  format.dim = 65;
  format.scan = ScanPrecision::kInt8;
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, 10));
  EXPECT_EQ(backend->device_bytes_used(), 10 * kRowBytes);
  const std::vector<float> rows(65 * 3, 1.5f);
  ASSERT_OK(planes->Append(rows.data(), 3));
  ASSERT_OK(planes->Seal({.ranks = Ranks(3)}));
  EXPECT_EQ(planes->device_bytes(), 3 * kRowBytes);
}

TEST(RowPlanesTest, TheBudgetIsTakenAtReserveAndTheRestGivenBackAtSeal) {
  constexpr int64_t kRowBytes = 64 * 4 + 12;  // 33 elements padded to 64, S(x,x), rank
  const auto backend = MakeBackend("", 3, 100 * kRowBytes);
  EXPECT_EQ(backend->device_bytes_total(), 100 * kRowBytes);
  backend::RowFormat format;
  format.dim = 33;
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, 90));
  EXPECT_EQ(backend->device_bytes_used(), 90 * kRowBytes);
  EXPECT_EQ(planes->device_bytes(), 90 * kRowBytes);

  EXPECT_THAT(backend->Reserve(format, 11),
              StatusIs(kResourceExhausted, AllOf(HasSubstr(std::to_string(11 * kRowBytes)),
                                                 HasSubstr(std::to_string(10 * kRowBytes)))));
  EXPECT_EQ(backend->device_bytes_used(), 90 * kRowBytes);
  EXPECT_THAT(backend->MakeTombstones(*planes, std::vector<uint64_t>(1000)),
              StatusIs(kResourceExhausted, HasSubstr("8000")));
  {
    ASSERT_OK_AND_ASSIGN(const auto tombstones, backend->MakeTombstones(*planes, {1, 2}));
    EXPECT_EQ(backend->device_bytes_used(), 90 * kRowBytes + 16);
    EXPECT_EQ(tombstones->words(), (std::vector<uint64_t>{1, 2}));
  }

  const std::vector<float> rows(33 * 7, 1.5f);
  ASSERT_OK(planes->Append(rows.data(), 7));
  EXPECT_EQ(backend->device_bytes_used(), 90 * kRowBytes);
  ASSERT_OK(planes->Seal({.ranks = Ranks(7)}));
  EXPECT_EQ(planes->device_bytes(), 7 * kRowBytes);
  EXPECT_EQ(backend->device_bytes_used(), 7 * kRowBytes);
  planes.reset();
  EXPECT_EQ(backend->device_bytes_used(), 0);
}

// A reservation far beyond the machine's memory costs nothing until it is filled.
TEST(RowPlanesTest, AnUntouchedReservationTakesNoMemory) {
  const auto backend = MakeBackend("", 3, int64_t{1} << 37);
  backend::RowFormat format;
  format.dim = 1024;
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, (int64_t{1} << 37) / 4200));
  const std::vector<float> rows(1024, 2.0f);
  ASSERT_OK(planes->Append(rows.data(), 1));
  ASSERT_OK(planes->Seal({.ranks = Ranks(1)}));
  std::vector<float> got(1024);
  ASSERT_OK(planes->ReadRange(0, 1, got.data()));
  EXPECT_EQ(got, rows);
}

TEST(RowPlanesTest, RefusesWhatDoesNotFitByName) {
  const auto backend = MakeBackend("", 3, 1 << 20);
  backend::RowFormat format;
  format.dim = 2;
  EXPECT_THAT(backend->Reserve(format, 0), StatusIs(kInvalidArgument, HasSubstr("rows_max = 0")));
  format.dim = kDimMax + 1;
  EXPECT_THAT(backend->Reserve(format, 1), StatusIs(kInvalidArgument, HasSubstr("dim = 8193")));
  format.dim = 2;
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, 2));
  const std::vector<float> rows(6);
  EXPECT_THAT(planes->Append(rows.data(), 3),
              StatusIs(kResourceExhausted, HasSubstr("rows_max = 2")));
  ASSERT_OK(planes->Append(rows.data(), 2));
  EXPECT_THAT(planes->Seal({.ranks = Ranks(1)}),
              StatusIs(kInvalidArgument, HasSubstr("ranks.size = 1")));
  ASSERT_OK(planes->Seal({.ranks = Ranks(2)}));
  EXPECT_THAT(planes->Append(rows.data(), 0), StatusIs(kFailedPrecondition));
  std::vector<float> out(6);
  EXPECT_THAT(planes->Read({2}, out.data()), StatusIs(kInvalidArgument, HasSubstr("slot = 2")));
  EXPECT_THAT(planes->ReadRange(1, 2, out.data()), StatusIs(kInvalidArgument));
  format.dim = 3;
  ASSERT_OK_AND_ASSIGN(auto other, backend->Reserve(format, 2));
  EXPECT_THAT(other->AppendFrom(*planes, {0}), StatusIs(kInvalidArgument));
}

}  // namespace
}  // namespace nearfield::cpu

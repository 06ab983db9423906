// Searches more than 2^31 elements, in slabs of the full size.

#include <algorithm>
#include <cstring>
#include <vector>

#include "engine/score/score.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

class GpuLargeTest : public GpuTest {};

TEST_F(GpuLargeTest, MoreThanTwoBillionElements) {
  auto made = MakeGpuTopkEngine(
      {.memory_bytes = int64_t{6} << 30, .capability_max = testing::GpuCapabilityMax()});
  if (made.status().code() == kResourceExhausted) GTEST_SKIP() << made.status();
  ASSERT_OK(made);
  backend::Backend& backend = **made;
  // The same block of rows, repeated: a row's score occurs at as many ranks as there are copies.
  constexpr int64_t kBlockRows = 65'536;
  constexpr int64_t kCopies = 34;
  const CollectionSpec spec = {.dim = 1024, .metric = Metric::kDot, .row_type = RowType::kBFloat16};
  static_assert(kBlockRows * kCopies * 1024 > int64_t{1} << 31);
  const HostGeneration block =
      testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, kBlockRows, random_.Bits()),
                              RankOrder::kAscending, false, random_);
  ASSERT_OK_AND_ASSIGN(auto planes, backend.Reserve(testing::FormatOf(spec), kBlockRows * kCopies));
  for (int64_t copy = 0; copy < kCopies; ++copy) {
    ASSERT_OK(planes->Append(block.corpus.rows.data(), kBlockRows));
  }
  ASSERT_OK(planes->Seal({.ranks = AscendingRanks(kBlockRows * kCopies)}));

  const std::vector<float> query = MakeQuery(block.corpus, QueryFamily::kGaussian, random_);
  const std::vector<int32_t> k = {4097};
  Ranked expected;
  for (const backend::RankedScore& row : testing::ReferenceTop(block, query, k[0] / kCopies + 10)) {
    for (int64_t copy = 0; copy < kCopies; ++copy) {
      expected.emplace_back(score::BitsFromFloat(row.score),
                            static_cast<uint32_t>(copy * kBlockRows + row.rank));
    }
  }
  // Ranks of rows in the block with equal scores interleave across the copies.
  std::sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) {
    const float score_a = score::FloatFromBits(a.first);
    const float score_b = score::FloatFromBits(b.first);
    return score_a != score_b ? score_a > score_b : a.second < b.second;
  });
  expected.resize(static_cast<size_t>(k[0]));
  const backend::QueryTile tile = testing::TileOf(query, k);
  const backend::GenerationView view = {.planes = planes.get(), .rows_live = kBlockRows * kCopies};
  backend::RankedLists best;
  ASSERT_OK(backend.Search(testing::FormatOf(spec), {&view, 1}, tile, &best, nullptr));
  ASSERT_EQ(ToBits(best.list(0, 0)), expected);

  std::vector<uint8_t> last(static_cast<size_t>(block.corpus.row_bytes()));
  ASSERT_OK(planes->ReadRange(kBlockRows * kCopies - 1, 1, last.data()));
  ASSERT_EQ(std::memcmp(last.data(), block.corpus.row(kBlockRows - 1).data(), last.size()), 0);
}

}  // namespace
}  // namespace nearfield::gpu

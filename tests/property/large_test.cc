// A corpus of more than 2^31 elements in one generation, to find indices that overflow 32 bits.
// Requires a GPU with enough free memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/oracle/oracle.h"
#include "engine/score/row_types.h"
#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/engines.h"
#include "tests/testing/gpu_capability.h"

namespace nearfield::property {
namespace {

constexpr int32_t kDim = 1024;
constexpr int64_t kRows = 2'200'000;
constexpr int64_t kBlockRows = 50'000;
constexpr int64_t kBaseRows = 4096;
static_assert(kRows * kDim > int64_t{1} << 31);

// Rows with the highest scores. They lie next to every border of 32-bit arithmetic on elements and
// bytes, and at both ends.
constexpr int64_t kPlanted[] = {0,         1'048'575, 1'048'576, 2'097'151,
                                2'097'152, 2'097'153, kRows - 1};

class EngineLargeCorpusTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status usable = testing::Usable(BackendKind::kGpu);
    if (!usable.ok()) GTEST_SKIP() << "needs a GPU: " << usable.message();
    absl::StatusOr<std::unique_ptr<Engine>> engine =
        Engine::Create({.backend = BackendChoice::kGpu,
                        .memory_bytes = kRows * kDim * 2 + (int64_t{1} << 30),
                        .host_memory_bytes = int64_t{1} << 30,
                        .batch_max = 16,
                        .gpu_capability_max = testing::GpuCapabilityMax()});
    if (absl::IsResourceExhausted(engine.status())) GTEST_SKIP() << engine.status().message();
    ASSERT_OK(engine);
    engine_ = *std::move(engine);
    base_ = MakeCorpus(spec_, CorpusFamily::kGaussian, kBaseRows, TestSeed());
    Random random(TestSeed() + 1);
    query_ = MakeQuery(base_, QueryFamily::kGaussian, random);
    Upload();
  }

  // Returns row `index`. A planted row is the query times a scale that grows with each planted row.
  // Any other row is a base row with two elements changed, so that rows differ.
  std::vector<uint16_t> Row(int64_t index) const {
    std::vector<uint16_t> row(kDim);
    const auto planted = std::find(std::begin(kPlanted), std::end(kPlanted), index);
    if (planted != std::end(kPlanted)) {
      const float scale = 2.0f + 0.25f * static_cast<float>(planted - std::begin(kPlanted));
      for (size_t d = 0; d < row.size(); ++d) row[d] = score::HalfBitsFromFloat(scale * query_[d]);
      return row;
    }
    std::memcpy(row.data(), base_.row(index % kBaseRows).data(), sizeof(uint16_t) * kDim);
    row[static_cast<size_t>(index / kBaseRows) % kDim] =
        score::HalfBitsFromFloat(static_cast<float>(index % 7) - 3.0f);
    row[kDim - 1] = score::HalfBitsFromFloat(static_cast<float>(index % 2039) / 1024.0f);
    return row;
  }
  static uint64_t IdOf(int64_t index) {
    return testing::Scramble(static_cast<uint64_t>(index) + 1);
  }

  void Upload() {
    ASSERT_OK_AND_ASSIGN(auto collection, engine_->CreateCollection(spec_));
    collection_ = std::move(collection);
    ASSERT_OK_AND_ASSIGN(auto upload,
                         collection_->BeginUpload({.rows_max = kRows, .payload_bytes_max = 0}));
    std::vector<uint8_t> rows(kBlockRows * kDim * sizeof(uint16_t));
    for (int64_t begin = 0; begin < kRows; begin += kBlockRows) {
      IdColumn ids;
      for (int64_t i = 0; i < kBlockRows; ++i) {
        std::memcpy(rows.data() + i * kDim * 2, Row(begin + i).data(), sizeof(uint16_t) * kDim);
        ids.AppendNumber(IdOf(begin + i));
      }
      ASSERT_OK(upload->Append({.ids = &ids, .rows = rows, .payloads = nullptr}));
    }
    ASSERT_OK(upload->Commit());
  }

  CollectionSpec spec_{.dim = kDim,
                       .metric = Metric::kDot,
                       .row_type = RowType::kFloat16,
                       .id_type = IdType::kUint64};
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Collection> collection_;
  Corpus base_;
  std::vector<float> query_;
};

TEST_F(EngineLargeCorpusTest, BeyondTwoToThe31ElementsEqualsTheOracleToTheBit) {
  SearchBatch batch;
  batch.queries.push_back({.vector = query_, .row_id = std::nullopt, .k = 100});
  ASSERT_OK_AND_ASSIGN(const SearchResult result, engine_->Search(*collection_, batch));
  const Neighbors& answer = result.queries[0];
  ASSERT_EQ(answer.ids.size(), 100);

  // The planted rows come first, the longest at the top, with the oracle's scores.
  const auto planted_count = static_cast<int64_t>(std::size(kPlanted));
  Neighbors planted;
  for (int64_t place = 0; place < planted_count; ++place) {
    const int64_t index = kPlanted[planted_count - 1 - place];
    planted.ids.AppendNumber(IdOf(index));
    planted.scores.push_back(
        oracle::Score(spec_.metric, spec_.row_type, query_, Row(index).data()));
  }
  EXPECT_THAT(testing::Prefix(answer, planted_count), BytesEqual(planted));

  ASSERT_OK_AND_ASSIGN(const FetchResult fetched,
                       collection_->Fetch(planted.ids, {.vectors = true, .payloads = false}));
  ASSERT_EQ(fetched.rows.size(), static_cast<size_t>(planted_count) * kDim * 2);
  for (int64_t place = 0; place < planted_count; ++place) {
    const std::vector<uint16_t> row = Row(kPlanted[planted_count - 1 - place]);
    EXPECT_EQ(
        std::memcmp(fetched.rows.data() + place * kDim * 2, row.data(), sizeof(uint16_t) * kDim), 0)
        << "row " << kPlanted[planted_count - 1 - place];
  }

  ASSERT_OK_AND_ASSIGN(
      const VerifyResult verified,
      engine_->Verify(*collection_,
                      {.query = batch.queries[0], .neighbors = answer, .epoch = result.epoch},
                      nullptr));
  EXPECT_TRUE(verified.equal) << verified.explanation;
  EXPECT_EQ(verified.rows_checked, kRows);

  // The answer is the same in a batch with other queries and for the maximum k.
  batch.queries.clear();
  std::vector<std::vector<float>> others;
  for (int64_t i = 0; i < 8; ++i) others.push_back(testing::Decode(spec_, base_.row(i)));
  for (const std::vector<float>& other : others)
    batch.queries.push_back({.vector = other, .row_id = std::nullopt, .k = 10});
  batch.queries.push_back({.vector = query_, .row_id = std::nullopt, .k = kKMax});
  ASSERT_OK_AND_ASSIGN(const SearchResult batched, engine_->Search(*collection_, batch));
  EXPECT_THAT(testing::Prefix(batched.queries[8], 100), BytesEqual(answer));

  // After the best rows are deleted, the next ones take their places.
  ASSERT_OK(collection_->Delete(planted.ids));
  ASSERT_OK_AND_ASSIGN(
      const SearchResult rest,
      engine_->Search(*collection_,
                      {.queries = {batch.queries[8]}, .parts = {}, .cancelled = nullptr}));
  Neighbors expected;
  for (int64_t place = planted_count; place < kKMax; ++place) {
    expected.ids.AppendNumber(batched.queries[8].ids.number(place));
    expected.scores.push_back(batched.queries[8].scores[static_cast<size_t>(place)]);
  }
  EXPECT_THAT(testing::Prefix(rest.queries[0], kKMax - planted_count), BytesEqual(expected));
}

}  // namespace
}  // namespace nearfield::property

// Tests searches on the device: the answers equal those of the host path and of the oracle, to the
// bit.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/gpu/device_search_fixture.h"

namespace nearfield::testing {
namespace {

class GpuDeviceAnswersTest : public GpuDeviceSearchTest {
 protected:
  // Every family of rows, in several generations, with every number of queries that has its own
  // path.
  void ExpectAllFamilies() {
    for (const CorpusFamily family : kCorpusFamilies) {
      const CollectionSpec spec = AnySpec(200);
      SCOPED_TRACE(absl::StrCat(Name(family), ", ", Describe(spec)));
      const Corpus corpus = MakeCorpus(spec, family, random_.Between(1, 3000), random_.Bits());
      Corpus live;
      const auto collection = Fill(corpus, random_.Between(1, 6), &live);
      ASSERT_NE(collection, nullptr);
      for (const int64_t count : {1, 2, 17, 70}) {
        const int64_t k = random_.OneIn(6) ? random_.Between(1, 3000) : random_.Between(1, 25);
        DeviceQueries queries = Draw(corpus, count, static_cast<int32_t>(k));
        const auto got = ExpectHostAnswers(*collection, queries);
        if (count <= 17) ExpectOracleAnswers(live, queries, got);
        auto filter = std::make_shared<RowFilter>();
        const int64_t one_in = random_.OneOf<int64_t>({1, 2, 20, 400});
        filter->chosen.resize(static_cast<size_t>(corpus.rows_count()) / 64 + 1);
        for (int64_t row = 0; row < corpus.rows_count(); ++row) {
          if (!random_.OneIn(one_in)) continue;
          filter->chosen[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
        }
        queries.filter = filter;
        const auto filtered = ExpectHostAnswers(*collection, queries);
        if (!filtered.empty() && !filtered[0].scores.empty()) {
          // A score of the answer, so that the limit itself is in it.
          queries.score_threshold = filtered[0].scores[filtered[0].scores.size() / 2];
        }
        ExpectHostAnswers(*collection, queries);
        if (HasFailure()) return;
      }
    }
  }
};

TEST_F(GpuDeviceAnswersTest, SmokeEqualsHostAndOracleOnEveryFamily) { ExpectAllFamilies(); }

TEST_F(GpuDeviceAnswersTest, LesserGpusGiveTheSameAnswers) {
  for (const int32_t capability : {75, 80, 86}) {
    SCOPED_TRACE(capability);
    Restart(capability);
    ExpectAllFamilies();
    if (HasFailure()) return;
  }
}

// Dimensions at the limits of queries that are passed as kernel parameters and of one warp.
TEST_F(GpuDeviceAnswersTest, SmokeEveryDimension) {
  for (const int32_t dim : {1, 31, 33, 127, 128, 384, 1536, 1537, 4096, 8192}) {
    CollectionSpec spec = AnySpec(2);
    spec.dim = std::min(dim, engine_->Info().scan_dim_max);
    SCOPED_TRACE(Describe(spec));
    const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 500, random_.Bits());
    Corpus live;
    const auto collection = Fill(corpus, random_.Between(1, 4), &live);
    ASSERT_NE(collection, nullptr);
    for (const int64_t count : {1, 5, 33}) {
      const DeviceQueries queries = Draw(corpus, count, 10);
      ExpectOracleAnswers(live, queries, ExpectHostAnswers(*collection, queries));
      if (HasFailure()) return;
    }
  }
}

// More candidates than there is room for: the scan of codes is repeated or replaced.
TEST_F(GpuDeviceAnswersTest, EscalatedQueriesGiveTheSameAnswers) {
  for (const CorpusFamily family : {CorpusFamily::kAllEqual, CorpusFamily::kDuplicates}) {
    for (const int64_t generations : {1, 3}) {
      const CollectionSpec spec = {.dim = 32, .scan = ScanChoice::kInt8};
      const Corpus corpus = MakeCorpus(spec, family, 70'000, random_.Bits());
      Corpus live;
      const auto collection = Fill(corpus, generations, &live);
      ASSERT_NE(collection, nullptr);
      int64_t escalated = 0;
      for (const int64_t count : {1, 6, 70}) {
        const DeviceQueries queries = Draw(corpus, count, 10);
        ASSERT_OK_AND_ASSIGN(const auto buffers, DeviceBuffers::Make(*engine_, queries, kCopy));
        ASSERT_OK_AND_ASSIGN(const auto result,
                             engine_->SearchOnDevice(*collection, buffers->Search()));
        escalated += result.cost.escalations.tighter + result.cost.escalations.canonical;
        ASSERT_OK_AND_ASSIGN(const auto got, buffers->Read());
        ASSERT_OK_AND_ASSIGN(const auto want, engine_->Search(*collection, queries.Batch()));
        for (size_t q = 0; q < got.size(); ++q) {
          ASSERT_THAT(got[q], BytesEqual(want.queries[q])) << "query " << q;
        }
      }
      EXPECT_GT(escalated, 0);
    }
  }
}

// More queries than one batch of codes takes, with the largest k.
TEST_F(GpuDeviceAnswersTest, LargeBatchesAndLargeK) {
  const CollectionSpec spec = {.dim = 24, .metric = Metric::kL2, .scan = ScanChoice::kInt8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kTwoValues, 20'000, random_.Bits());
  Corpus live;
  const auto collection = Fill(corpus, 4, &live);
  ASSERT_NE(collection, nullptr);
  ExpectHostAnswers(*collection, Draw(corpus, 1500, 7));
  const DeviceQueries queries = Draw(corpus, 3, engine_->Info().k_max);
  ExpectOracleAnswers(live, queries, ExpectHostAnswers(*collection, queries));
}

TEST_F(GpuDeviceAnswersTest, InvalidQueriesAreNamedAndHarmNothing) {
  const CollectionSpec spec = {.dim = 40, .metric = Metric::kCosine};
  for (const int64_t rows : {0, 2000}) {
    const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, rows, random_.Bits());
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine_, corpus));
    const Corpus some = MakeCorpus(spec, CorpusFamily::kGaussian, 10, random_.Bits());
    for (const int64_t count : {1, 3, 100}) {
      DeviceQueries good = Draw(some, count, 5);
      // One query is made invalid below, so no other may be, as a query of zeros is with cosine.
      for (size_t at = 0; at < good.vectors.size(); at += 40) good.vectors[at] = 1.0f;
      good = MakeDeviceQueries(good.vectors, count, good.type);
      good.k = 5;
      for (const RowType type : kRowTypes) {
        DeviceQueries bad = MakeDeviceQueries(good.vectors, count, type);
        const auto query = static_cast<size_t>(random_.Between(0, count));
        const size_t bytes = static_cast<size_t>(BytesPerElement(type));
        // All ones is a NaN of every type.
        std::memset(bad.elements.data() + (query * 40 + 17) * bytes, 0xff, bytes);
        EXPECT_THAT(SearchOnDevice(*engine_, *collection, bad, kCopy),
                    StatusIs(kInvalidArgument,
                             HasSubstr(absl::StrCat("queries[", query,
                                                    "].vector is not finite in dimension 17"))));
        std::memset(bad.elements.data() + query * 40 * bytes, 0, 40 * bytes);
        EXPECT_THAT(SearchOnDevice(*engine_, *collection, bad, kCopy),
                    StatusIs(kInvalidArgument,
                             HasSubstr(absl::StrCat("queries[", query, "].vector is all zeros"))));
      }
      ExpectHostAnswers(*collection, good);
    }
  }
}

TEST_F(GpuDeviceAnswersTest, MemoryIsCountedAndGivenBack) {
  const CollectionSpec spec = {.dim = 8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 300'000, random_.Bits());
  {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine_, corpus));
    const int64_t used = engine_->GetCapacity().device_bytes_used;
    EXPECT_EQ(collection->Stats().device_bytes, used);
    // Rows padded to 32 elements, codes and bounds, norms, ranks, ids; up to a slab of each.
    constexpr int64_t kRowBytes = 32 * 4 + 128 + 16 + 8 + 4 + 8;
    EXPECT_GE(used, 300'000 * kRowBytes);
    EXPECT_LE(used, 300'000 * kRowBytes + (int64_t{6} << 20));
    ExpectHostAnswers(*collection, Draw(corpus, 1, 10));
    EXPECT_EQ(engine_->GetCapacity().device_bytes_used, used);
  }
  EXPECT_EQ(engine_->GetCapacity().device_bytes_used, 0);
  {
    constexpr int64_t kBytes = int64_t{7} << 20;
    std::vector<std::unique_ptr<DeviceMemory>> held;
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK_AND_ASSIGN(auto memory, engine_->TakeDeviceMemory(kBytes));
      EXPECT_GE(memory->bytes(), kBytes);
      EXPECT_EQ(cudaMemset(memory->data(), i, static_cast<size_t>(memory->bytes())), cudaSuccess);
      held.push_back(std::move(memory));
    }
    for (int i = 0; i < 5; ++i) {
      std::vector<char> bytes(static_cast<size_t>(held[static_cast<size_t>(i)]->bytes()));
      kCopy(bytes.data(), held[static_cast<size_t>(i)]->data(), bytes.size());
      EXPECT_EQ(bytes, std::vector<char>(bytes.size(), static_cast<char>(i)));
    }
    held.erase(held.begin() + 1);
    EXPECT_THAT(engine_->TakeDeviceMemory(int64_t{2} << 30),
                StatusIs(kResourceExhausted, HasSubstr("bytes needed")));
    EXPECT_THAT(engine_->TakeDeviceMemory(0), StatusIs(kInvalidArgument, HasSubstr("bytes = 0")));
  }
  EXPECT_EQ(engine_->GetCapacity().device_bytes_used, 0);
}

}  // namespace
}  // namespace nearfield::testing

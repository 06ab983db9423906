// Tests searches whose queries were sent to the device before: exact to the bit, even if a batch
// runs in parts or the memory held other queries before.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/gpu_topk_engine.h"
#include "engine/gpu/search_job.h"
#include "tests/engine/gpu/gpu_certified_fixture.h"

namespace nearfield::gpu {
namespace {

// Sends the queries of every search first.
class SendingEngine : public GpuTopkEngine {
 public:
  explicit SendingEngine(const std::shared_ptr<GpuCore>& core)
      : GpuTopkEngine(core, {.k_max = kSelectKMax}) {}

  absl::Status Search(const backend::RowFormat& format,
                      absl::Span<const backend::GenerationView> generations,
                      const backend::QueryTile& tile, backend::RankedLists* best,
                      backend::ScanCost* cost) override {
    const int64_t count = static_cast<int64_t>(tile.k.size()) * format.dim;
    const std::shared_ptr<float[]> memory = TakeQueryMemory(count);
    if (memory == nullptr) return absl::InternalError("no memory for the queries");
    std::copy_n(tile.queries, count, memory.get());
    ABSL_RETURN_IF_ERROR(SendQueries(memory.get(), count));
    backend::QueryTile sent = tile;
    sent.queries = memory.get();
    sent.in_query_memory = true;
    return GpuTopkEngine::Search(format, generations, sent, best, cost);
  }
};

class QueryMemoryTest : public GpuCertifiedTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    const std::shared_ptr<GpuCore> core = MakeCore(512 * kMiB);
    ASSERT_NE(core, nullptr);
    backend_ = std::make_unique<SendingEngine>(core);
  }
};

// Queries of at least 128 KiB are sent; fewer are read where they lie. Different rows and queries
// have different answers.
TEST_F(QueryMemoryTest, SmokeBatchesEqualTheReference) {
  for (const ScanChoice scan : {ScanChoice::kInt8, ScanChoice::kInt16, ScanChoice::kRows}) {
    for (const int64_t queries : {1, 20, 130, 700}) {
      SCOPED_TRACE(absl::StrCat("scan ", static_cast<int>(scan), ", queries ", queries));
      Scenario scenario = {.spec = AnyCodesSpec(2)};
      scenario.spec.scan = scan;
      if (queries == 130) scenario.spec.metric = Metric::kCosine;
      scenario.spec.dim = static_cast<int32_t>(random_.Between(260, 400));
      for (int64_t g = random_.Between(1, 4); g > 0; --g) {
        AddRows(scenario, CorpusFamily::kGaussian, random_.Between(50, 2'000), random_.OneIn(2));
      }
      scenario.AddQueries(queries, static_cast<int32_t>(random_.Between(1, 40)),
                          QueryFamily::kGaussian, random_);
      ExpectReferenceAnswers(*backend_, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST(SearchJobTest, OnlyNeighborsLieInOnePiece) {
  const backend::QueryTile tile = {.in_query_memory = true};
  SearchJob job;
  job.queries = &tile;
  EXPECT_TRUE(job.InQueryMemory({7}));
  EXPECT_TRUE(job.InQueryMemory({7, 8, 9}));
  EXPECT_FALSE(job.InQueryMemory({7, 9}));
  EXPECT_FALSE(job.InQueryMemory({512, 3, 514}));  // as many as from the first to the last
}

TEST_F(QueryMemoryTest, BlocksAreLentUntilNoneIsFree) {
  std::vector<std::shared_ptr<float[]>> blocks;
  while (std::shared_ptr<float[]> block = backend_->TakeQueryMemory(1)) blocks.push_back(block);
  EXPECT_EQ(blocks.size(), static_cast<size_t>(kQueryBlocks));
  blocks.pop_back();
  EXPECT_EQ(backend_->TakeQueryMemory(kQueryBlockBytes / 4 + 1), nullptr);
  EXPECT_NE(backend_->TakeQueryMemory(kQueryBlockBytes / 4), nullptr);
}

}  // namespace
}  // namespace nearfield::gpu

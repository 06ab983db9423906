// Checks that BlockBubbleSearch, the baseline of the benchmark, returns the oracle's answers:
// otherwise its times could not be compared with the engine's.
#include <cuda_runtime_api.h>

#include <vector>

#include "tests/bench/block_bubble.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

class BlockBubbleTest : public GpuTest {};

TEST_F(BlockBubbleTest, EqualsTheOracle) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    const int64_t rows_count = random_.Between(1, 3000);
    const CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, 200))};
    Corpus corpus = MakeCorpus(spec, family, rows_count, random_.Bits());
    corpus.ids = IdColumn(IdType::kUint64);
    for (int64_t row = 0; row < rows_count; ++row)
      corpus.ids.AppendNumber(static_cast<uint64_t>(row));
    void* rows = nullptr;
    ASSERT_EQ(cudaMalloc(&rows, corpus.rows.size()), cudaSuccess);
    ASSERT_EQ(cudaMemcpy(rows, corpus.rows.data(), corpus.rows.size(), cudaMemcpyHostToDevice),
              cudaSuccess);
    for (const int32_t k : {1, 8, 100}) {
      const std::vector<float> query =
          MakeQuery(corpus, random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
      ASSERT_OK_AND_ASSIGN(
          const auto got,
          bench::BlockBubbleSearch(
              {.rows = static_cast<const float*>(rows), .rows_count = rows_count, .dim = spec.dim},
              query, k));
      ASSERT_THAT(got, BytesEqual(OracleAnswer(corpus, query, k))) << testing::Name(family);
    }
    ASSERT_EQ(cudaFree(rows), cudaSuccess);
  }
}

}  // namespace
}  // namespace nearfield::gpu

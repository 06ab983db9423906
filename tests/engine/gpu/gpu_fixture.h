// Fixture that gives a test a GPU, or skips it visibly with the reason why there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/cuda/probe_gpu.h"
#include "engine/gpu/make_gpu_topk_engine.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/score/score.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/prelude.h"
#include "tests/testing/gpu_capability.h"

namespace nearfield::gpu {

inline constexpr int64_t kMiB = int64_t{1} << 20;

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status probed = ProbeGpu(0);
    if (!probed.ok()) GTEST_SKIP() << probed;
  }

  std::unique_ptr<backend::Backend> MakeEngine(
      int64_t memory_bytes, int64_t host_rows_bytes = 0,
      int32_t capability_max = testing::GpuCapabilityMax()) {
    auto made = MakeGpuTopkEngine({.memory_bytes = memory_bytes,
                                   .host_rows_bytes = host_rows_bytes,
                                   .capability_max = capability_max});
    EXPECT_OK(made);
    return made.ok() ? *std::move(made) : nullptr;
  }

  std::shared_ptr<GpuCore> MakeCore(int64_t memory_bytes) {
    auto made = GpuCore::Create(
        {.memory_bytes = memory_bytes, .capability_max = testing::GpuCapabilityMax()});
    EXPECT_OK(made);
    return made.ok() ? *std::move(made) : nullptr;
  }

  // Adds a generation to the scenario.
  void AddRows(Scenario& scenario, CorpusFamily family, int64_t rows_count,
               bool deletes_some = false) {
    scenario.AddGeneration(family, rows_count,
                           random_.OneIn(2) ? RankOrder::kShuffled : RankOrder::kDescending,
                           deletes_some, random_);
  }

  Random random_{TestSeed()};
};

// A test of one way to search rows without codes, by an engine that takes no other.
class RowPathTest : public GpuTest {
 protected:
  template <typename Engine>
  void UseEngine(int64_t memory_bytes) {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    core_ = MakeCore(memory_bytes);
    ASSERT_NE(core_, nullptr);
    backend_ = std::make_unique<Engine>(core_);
  }

  CollectionSpec AnySpec(int32_t dim_end) {
    CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, dim_end))};
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    spec.row_type = static_cast<RowType>(random_.Between(1, 4));
    spec.scan = ScanChoice::kRows;
    return spec;
  }

  std::shared_ptr<GpuCore> core_;
  std::unique_ptr<backend::Backend> backend_;
};

// Returns the ranks of rows that arrived in id order.
inline std::vector<uint32_t> AscendingRanks(int64_t rows_count) {
  std::vector<uint32_t> ranks(static_cast<size_t>(rows_count));
  std::iota(ranks.begin(), ranks.end(), 0u);
  return ranks;
}

// (score bits, rank): comparable bit for bit.
using Ranked = std::vector<std::pair<uint32_t, uint32_t>>;
inline Ranked ToBits(absl::Span<const backend::RankedScore> best) {
  Ranked bits;
  for (const backend::RankedScore& row : best) {
    bits.emplace_back(score::BitsFromFloat(row.score), row.rank);
  }
  return bits;
}

}  // namespace nearfield::gpu

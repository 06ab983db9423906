// Tests of search plans: for any shape, a plan scans every row once for each of its queries, and
// fits the workspace.
#include "engine/plan/search_plan.h"

#include <algorithm>
#include <vector>

#include "engine/gpu/kernels/row_scan/scan_policy.h"
#include "engine/topk/group_state.h"
#include "engine/topk/select_policy.h"
#include "tests/engine/prelude.h"

namespace nearfield::plan {
namespace {

constexpr int32_t kGenerations = 16;

DeviceProperties Hopper() {
  return {.sm_count = 132, .shared_bytes_per_sm = 233'472, .shared_bytes_per_block_max = 232'448};
}

EngineLimits Engine(int64_t keys_max) {
  EngineLimits limits;
  for (const gpu::ScanPolicy& policy : gpu::kScanPolicies) {
    limits.variants.push_back({.queries = policy.queries, .blocks_per_sm = policy.blocks_per_sm});
  }
  limits.tile = {.queries = gpu::kScanTileQueries,
                 .rows = gpu::kScanTileRows,
                 .shared_bytes = gpu::kScanTileSharedBytes};
  limits.scan_rows_per_block = 32;
  limits.keys_per_select_block = gpu::kSelectKeysPerBlock;
  limits.select_groups_max = gpu::kGroupsMax;
  limits.keys_max = keys_max;
  limits.result_keys_max = int64_t{8} * kGenerations * 4112;
  limits.queries_max = 1024;
  limits.query_elements_max = int64_t{1} << 18;
  limits.k_max = gpu::kSelectKMax;
  return limits;
}

void ExpectValid(const SearchShape& shape, const EngineLimits& engine) {
  const DeviceProperties device = Hopper();
  const SearchPlan plan = PlanSearch(shape, device, engine);
  ASSERT_GE(plan.queries, 1);
  ASSERT_LE(plan.queries, std::min(shape.queries, engine.queries_max));
  ASSERT_GE(plan.scan_subtiles * plan.queries_per_scan, plan.queries);
  ASSERT_LT((plan.scan_subtiles - 1) * plan.queries_per_scan, plan.queries);
  ASSERT_LE(plan.scan_shared_bytes, device.shared_bytes_per_block_max);
  ASSERT_LE(plan.keys_pitch * plan.queries, engine.keys_max);
  ASSERT_GE(plan.carry_keys, engine.k_max);
  ASSERT_GE(plan.results_pitch, shape.k);
  const auto lists =
      std::count_if(shape.rows.begin(), shape.rows.end(), [](int64_t r) { return r > 0; });
  ASSERT_LE(lists * plan.queries * plan.results_pitch, engine.result_keys_max);
  std::vector<int64_t> scanned(shape.rows.size(), 0);
  std::vector<bool> finished(shape.rows.size(), false);
  for (const PlanStep& step : plan.steps) {
    ASSERT_FALSE(step.pieces.empty());
    int64_t next_key = plan.carry_keys;
    for (const PlanPiece& piece : step.pieces) {
      const auto g = static_cast<size_t>(piece.generation);
      ASSERT_EQ(piece.row_begin, scanned[g]);
      ASSERT_GT(piece.row_end, piece.row_begin);
      ASSERT_EQ(piece.row_begin % 4, 0);
      ASSERT_EQ(piece.takes_carry, piece.row_begin > 0);
      ASSERT_EQ(piece.gives_carry, piece.row_end < shape.rows[g]);
      // The carry has one owner at a time: a piece that takes or gives it is the only piece of its
      // step.
      if (piece.takes_carry || piece.gives_carry) {
        ASSERT_EQ(step.pieces.size(), 1u);
      }
      ASSERT_EQ(piece.key_begin % kKeysAlign, 0);
      ASSERT_GE(piece.key_begin, next_key);
      next_key = piece.key_begin + piece.row_end - piece.row_begin;
      ASSERT_LE(next_key, plan.keys_pitch);
      ASSERT_GE(piece.scan_blocks, 1);
      scanned[g] = piece.row_end;
      finished[g] = !piece.gives_carry;
    }
    ASSERT_GE(step.select_groups, 1);
    ASSERT_GE(step.select_blocks_per_group, 1);
    ASSERT_LE(step.select_groups * step.select_blocks_per_group, device.sm_count);
    if (step.select_blocks_per_group > 1) {
      ASSERT_LE(step.select_groups, engine.select_groups_max);
    }
  }
  for (size_t g = 0; g < shape.rows.size(); ++g) {
    ASSERT_EQ(scanned[g], shape.rows[g]);
    ASSERT_EQ(finished[g], shape.rows[g] > 0);
  }
}

TEST(SearchPlanTest, AnyShapeIsScannedOnceWithinTheWorkspace) {
  Random random(TestSeed());
  for (int round = 0; round < 20'000; ++round) {
    const EngineLimits engine = Engine(random.Between(512 * 1024, 40'000'000));
    ASSERT_TRUE(WorkspaceIsEnough(engine, kGenerations));
    std::vector<int64_t> rows;
    const int64_t generations = random.Between(0, kGenerations + 1);
    for (int64_t g = 0; g < generations; ++g) {
      const int64_t magnitude = int64_t{1} << random.Between(0, 30);
      rows.push_back(random.OneIn(8) ? 0 : random.Between(1, magnitude + 1));
    }
    const SearchShape shape = {.dim_padded = static_cast<int32_t>(random.Between(1, 257) * 32),
                               .queries = static_cast<int32_t>(random.Between(1, 1100)),
                               .k = static_cast<int32_t>(random.Between(1, 4098)),
                               .rows = rows};
    ExpectValid(shape, engine);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "dim " << shape.dim_padded << ", queries " << shape.queries << ", k "
                    << shape.k;
      return;
    }
  }
}

TEST(SearchPlanTest, EveryVariantIsChosenForItsNumberOfQueries) {
  const EngineLimits engine = Engine(1 << 20);
  const std::vector<int64_t> rows = {10'000};
  for (const gpu::ScanPolicy& policy : gpu::kScanPolicies) {
    const SearchShape shape = {.dim_padded = 384, .queries = policy.queries, .k = 10, .rows = rows};
    EXPECT_EQ(PlanSearch(shape, Hopper(), engine).queries_per_scan, policy.queries);
    EXPECT_EQ(PlanSearch(shape, Hopper(), engine).queries, policy.queries);
  }
}

TEST(SearchPlanTest, ManyQueriesAreScannedInTiles) {
  EngineLimits engine = Engine(1 << 20);
  const std::vector<int64_t> rows = {100'000};
  const SearchShape shape = {.dim_padded = 384, .queries = 100, .k = 10, .rows = rows};
  const auto queries_per_scan = [&](SearchShape of, const EngineLimits& limits) {
    return PlanSearch(of, Hopper(), limits).queries_per_scan;
  };
  EXPECT_EQ(queries_per_scan(shape, engine), gpu::kScanTileQueries);
  SearchShape other = shape;
  other.tiles = UseTiles::kNever;
  EXPECT_EQ(queries_per_scan(other, engine), 8);
  other = shape;
  other.queries = 31;
  EXPECT_EQ(queries_per_scan(other, engine), 8) << "few queries";
  other.tiles = UseTiles::kAlways;
  EXPECT_EQ(queries_per_scan(other, engine), gpu::kScanTileQueries);
  other = shape;
  const std::vector<int64_t> few = {1'000};
  other.rows = few;
  EXPECT_EQ(queries_per_scan(other, engine), 8) << "few rows";
  // Results of sixteen generations with a large k leave room for few queries.
  const std::vector<int64_t> of_generations(kGenerations, 100'000);
  other = {.dim_padded = 384, .queries = 100, .k = 4'096, .rows = of_generations};
  EXPECT_EQ(queries_per_scan(other, engine), 8);
  engine.tile = {};
  EXPECT_EQ(queries_per_scan(shape, engine), 8) << "a lesser device";
}

TEST(SearchPlanTest, OneQueryOnASmallCorpusIsOneScanAndOneSelectionOfOneBlock) {
  const std::vector<int64_t> rows = {10'000};
  const SearchPlan plan = PlanSearch({.dim_padded = 384, .queries = 1, .k = 100, .rows = rows},
                                     Hopper(), Engine(1 << 20));
  ASSERT_EQ(plan.steps.size(), 1u);
  ASSERT_EQ(plan.steps[0].pieces.size(), 1u);
  EXPECT_EQ(plan.steps[0].pieces[0].scan_blocks, 313);
  EXPECT_EQ(plan.steps[0].select_groups, 1);
  EXPECT_EQ(plan.steps[0].select_blocks_per_group, 1);
}

TEST(SearchPlanTest, WideRowsTakeFewerQueriesAtOnce) {
  const EngineLimits engine = Engine(1 << 20);
  const std::vector<int64_t> rows = {10'000};
  EXPECT_EQ(
      PlanSearch(
          {.dim_padded = 8192, .queries = 100, .k = 10, .tiles = UseTiles::kNever, .rows = rows},
          Hopper(), engine)
          .queries_per_scan,
      1);
  EXPECT_EQ(
      PlanSearch(
          {.dim_padded = 4096, .queries = 100, .k = 10, .tiles = UseTiles::kNever, .rows = rows},
          Hopper(), engine)
          .queries_per_scan,
      2);
}

TEST(SearchPlanTest, NothingToScanIsAPlanWithoutSteps) {
  const std::vector<int64_t> rows = {0, 0};
  const SearchPlan plan = PlanSearch({.dim_padded = 32, .queries = 3, .k = 10, .rows = rows},
                                     Hopper(), Engine(1 << 20));
  EXPECT_TRUE(plan.steps.empty());
  EXPECT_EQ(plan.queries, 3);
}

TEST(SearchPlanTest, LimitsThatAreTooSmallAreRejected) {
  EngineLimits engine = Engine(1 << 20);
  engine.keys_max = 8 * 4097;
  EXPECT_FALSE(WorkspaceIsEnough(engine, kGenerations));
  engine = Engine(1 << 20);
  engine.result_keys_max = 8 * 4097;
  EXPECT_FALSE(WorkspaceIsEnough(engine, kGenerations));
  engine = Engine(1 << 20);
  engine.variants.clear();
  EXPECT_FALSE(WorkspaceIsEnough(engine, kGenerations));
}

}  // namespace
}  // namespace nearfield::plan

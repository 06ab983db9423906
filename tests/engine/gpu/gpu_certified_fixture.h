// Fixture for tests of searches by codes on the GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {

class GpuCertifiedTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    backend_ = MakeEngine(1024 * kMiB, 1024 * kMiB);
    ASSERT_NE(backend_, nullptr);
  }

  CollectionSpec CodesSpec(int32_t dim) {
    return {.dim = dim, .scan = random_.OneOf<ScanChoice>(kCodes)};
  }
  static constexpr ScanChoice kCodes[] = {ScanChoice::kInt8, ScanChoice::kInt16};

  CollectionSpec AnyCodesSpec(int32_t dim_end) {
    CollectionSpec spec = CodesSpec(static_cast<int32_t>(random_.Between(1, dim_end)));
    spec.metric = static_cast<Metric>(random_.Between(1, 4));
    spec.row_type = static_cast<RowType>(random_.Between(1, 4));
    return spec;
  }

  // Adds up to four generations of all sizes, and up to queries_end - 1 queries, some of a large k.
  void AddSome(Scenario& scenario, CorpusFamily family, int64_t queries_end) {
    const int64_t generations = random_.Between(1, 5);
    for (int64_t g = 0; g < generations; ++g) {
      const int64_t rows = random_.OneIn(4) ? random_.Between(1, 100) : random_.Between(100, 3000);
      AddRows(scenario, family, rows, random_.OneIn(2));
    }
    const int64_t queries = random_.Between(1, queries_end);
    for (int64_t q = 0; q < queries; ++q) {
      const int64_t k = random_.OneIn(6) ? random_.Between(1, 3000) : random_.Between(1, 25);
      scenario.AddQueries(1, static_cast<int32_t>(k),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
    }
  }

  // Adds rows for several stages of a batch, and queries of all scales.
  void AddStages(Scenario& scenario, CorpusFamily family, int64_t queries) {
    AddRows(scenario, family, random_.Between(4'500, 8'000), random_.OneIn(2));
    const int64_t more_generations = random_.Between(0, 3);
    for (int64_t g = 0; g < more_generations; ++g) {
      AddRows(scenario, family, random_.Between(1, 1'500), random_.OneIn(2));
    }
    for (int64_t q = 0; q < queries; ++q) {
      scenario.AddQueries(1, static_cast<int32_t>(random_.Between(1, 25)),
                          random_.OneOf<QueryFamily>(testing::kQueryFamilies), random_);
      Rescale(scenario, q);
    }
  }

  // Multiplies a query by a power of two or by zero, if it stays legal.
  void Rescale(Scenario& scenario, int64_t query) {
    const bool zero = random_.OneIn(20) && scenario.spec.metric != Metric::kCosine;
    const int exponent = random_.OneIn(3) ? static_cast<int>(random_.Between(-50, 51)) : 0;
    const absl::Span<float> values = absl::MakeSpan(scenario.queries)
                                         .subspan(static_cast<size_t>(query * scenario.spec.dim),
                                                  static_cast<size_t>(scenario.spec.dim));
    std::vector<float> scaled;
    for (const float value : values) scaled.push_back(zero ? 0.0f : std::ldexp(value, exponent));
    const bool finite =
        std::all_of(scaled.begin(), scaled.end(), [](float value) { return std::isfinite(value); });
    const bool nothing =
        std::all_of(scaled.begin(), scaled.end(), [](float value) { return value == 0.0f; });
    if (finite && (zero || !nothing)) std::copy(scaled.begin(), scaled.end(), values.begin());
  }

  std::unique_ptr<backend::Backend> backend_;
};

}  // namespace nearfield::gpu

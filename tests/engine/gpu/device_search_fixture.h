// Fixture of the tests of searches on the device of a GPU, through the public interface.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/cuda/probe_gpu.h"
#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/device_search.h"
#include "tests/testing/engines.h"
#include "tests/testing/gpu_capability.h"

namespace nearfield::testing {

// Returns when the copy is complete. Does not wait for side streams.
inline const DeviceCopy kCopy = [](void* to, const void* from, size_t bytes) {
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
};

class GpuDeviceSearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status probed = gpu::ProbeGpu(0);
    if (!probed.ok()) GTEST_SKIP() << probed;
    Restart(GpuCapabilityMax());
  }

  void Restart(int32_t capability) {
    engine_.reset();
    auto made = Engine::Create({.backend = BackendChoice::kGpu,
                                .memory_bytes = int64_t{1} << 30,
                                .host_memory_bytes = int64_t{1} << 30,
                                .host_rows_bytes = int64_t{256} << 20,
                                .batch_max = 2048,
                                .gpu_capability_max = capability});
    ASSERT_OK(made);
    engine_ = *std::move(made);
  }

  CollectionSpec AnySpec(int32_t dim_end) {
    CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, dim_end)),
                           .metric = random_.OneOf<Metric>(kMetrics),
                           .row_type = random_.OneOf<RowType>(kRowTypes)};
    spec.scan = random_.OneOf<ScanChoice>(
        {ScanChoice::kInt8, ScanChoice::kInt16, ScanChoice::kRows, ScanChoice::kAuto});
    const bool codes = spec.scan == ScanChoice::kInt8 || spec.scan == ScanChoice::kInt16;
    if (codes && random_.OneIn(4)) spec.rows = RowPlacement::kHost;
    return spec;
  }

  // Cuts the corpus into random generations, and deletes some rows.
  std::shared_ptr<Collection> Fill(const Corpus& corpus, int64_t generations, Corpus* live) {
    std::vector<std::vector<int64_t>> parts(static_cast<size_t>(generations));
    std::vector<int64_t> kept;
    IdColumn deleted;
    for (int64_t row = 0; row < corpus.rows_count(); ++row) {
      parts[static_cast<size_t>(random_.Between(0, generations))].push_back(row);
      if (generations > 1 && random_.OneIn(5)) {
        deleted.AppendFrom(corpus.ids, row);
      } else {
        kept.push_back(row);
      }
    }
    auto made = MakeCollection(*engine_, corpus, parts);
    EXPECT_OK(made);
    if (!made.ok()) return nullptr;
    if (!deleted.empty()) {
      EXPECT_OK((*made)->Delete(deleted, nullptr));
    }
    *live = Select(corpus, kept);
    return *std::move(made);
  }

  DeviceQueries Draw(const Corpus& corpus, int64_t count, int32_t k) {
    const auto type = random_.OneOf<RowType>(kRowTypes);
    std::vector<float> vectors;
    for (int64_t q = 0; q < count; ++q) {
      std::vector<float> query =
          MakeQuery(corpus, random_.OneOf<QueryFamily>(kQueryFamilies), random_);
      // A narrow type may turn the smallest numbers into zero, which cosine refuses.
      if (type != RowType::kFloat32) query[0] += 1.0f;
      if (std::all_of(query.begin(), query.end(), [](float value) { return value == 0; })) {
        query[0] = 1.0f;
      }
      vectors.insert(vectors.end(), query.begin(), query.end());
    }
    DeviceQueries queries = MakeDeviceQueries(vectors, count, type);
    queries.k = k;
    return queries;
  }

  // Expects the answers of both paths to be equal. Returns those of the device.
  std::vector<Neighbors> ExpectHostAnswers(const Collection& collection,
                                           const DeviceQueries& queries) {
    auto want = engine_->Search(collection, queries.Batch());
    auto got = SearchOnDevice(*engine_, collection, queries, kCopy);
    EXPECT_OK(want);
    EXPECT_OK(got);
    if (!want.ok() || !got.ok()) return {};
    for (size_t q = 0; q < got->size(); ++q) {
      EXPECT_THAT((*got)[q], BytesEqual(want->queries[q]))
          << "query " << q << " of " << queries.count << ", k " << queries.k;
      if (HasFailure()) break;
    }
    return *std::move(got);
  }

  void ExpectOracleAnswers(const Corpus& live, const DeviceQueries& queries,
                           const std::vector<Neighbors>& got) {
    const auto dim = static_cast<size_t>(live.spec.dim);
    for (size_t q = 0; q < got.size() && !HasFailure(); ++q) {
      const auto query = absl::MakeConstSpan(queries.vectors).subspan(q * dim, dim);
      EXPECT_THAT(got[q], BytesEqual(OracleAnswer(live, query, queries.k))) << "query " << q;
    }
  }

  std::unique_ptr<Engine> engine_;
  Random random_{TestSeed()};
};

}  // namespace nearfield::testing

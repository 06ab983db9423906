// Tests a query of a batch whose queue overflowed. It is answered later; until then the batch
// continues without it.
//
// Regression: such a query once got the threshold +inf. The comparison in batch_scan_rs turned it
// into a NaN, which lets every row through, so each later row cost the query an atomic addition.
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/memory/gpu_row_planes.h"
#include "tests/engine/gpu/device_array.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr int32_t kDim = 96;
constexpr uint32_t kTiles = 128;
constexpr uint32_t kCapacity = 256;

class BatchOverflowTest : public GpuTest, public ::testing::WithParamInterface<int32_t> {
 protected:
  // Fills `planes_`. The bounds of one row in 50 are unknown, so that no threshold excludes it.
  void MakeRows() {
    core_ = MakeCore(256 * kMiB);
    ASSERT_NE(core_, nullptr);
    const CollectionSpec spec = {.dim = kDim};
    corpus_ = MakeCorpus(spec, CorpusFamily::kGaussian, kTiles * kBatchTileRows, random_.Bits());
    const Corpus unbounded =
        MakeCorpus(spec, CorpusFamily::kMaxFinite, corpus_.rows_count(), random_.Bits());
    for (int64_t row = 0; row < corpus_.rows_count(); row += 50) {
      std::memcpy(corpus_.rows.data() + row * corpus_.row_bytes(), unbounded.row(row).data(),
                  static_cast<size_t>(corpus_.row_bytes()));
    }
    ASSERT_OK_AND_ASSIGN(auto reserved,
                         GpuRowPlanes::Reserve(core_, {.dim = kDim, .scan = ScanPrecision::kInt8},
                                               corpus_.rows_count()));
    planes_ = std::move(reserved);
    ASSERT_OK(planes_->Append(corpus_.rows.data(), corpus_.rows_count()));
    ASSERT_OK(planes_->Seal({.ranks = AscendingRanks(corpus_.rows_count())}));
  }

  BatchArgs Args(int32_t queries) const {
    BatchArgs args;
    args.corpus.count = 1;
    args.corpus.row_index_end = static_cast<uint32_t>(corpus_.rows_count());
    args.corpus.generations[0] = {.rows = planes_->view(),
                                  .codes = planes_->codes(),
                                  .tombstones = {},
                                  .rows_begin = 0,
                                  .rows_count = args.corpus.row_index_end};
    args.rotation = bound::RotationShapeOf(kDim, planes_->format().seed);
    args.queries = queries;
    args.code_stride = planes_->codes().code_bytes;
    args.capacity = kCapacity;
    return args;
  }

  std::shared_ptr<GpuCore> core_;
  Corpus corpus_;
  std::unique_ptr<GpuRowPlanes> planes_;
};

TEST_P(BatchOverflowTest, SmokeAQueryThatOverflowedCollectsNoMoreRows) {
  MakeRows();
  if (HasFatalFailure()) return;
  const int32_t queries = GetParam();
  BatchArgs args = Args(queries);
  DeviceArray<float> vectors(int64_t{queries} * kDim);
  DeviceArray<int32_t> k(queries);
  DeviceArray<char> first(int64_t{queries} * args.code_stride);
  DeviceArray<char> second(int64_t{queries} * args.code_stride);
  DeviceArray<BatchQuery> state(queries);
  DeviceArray<QueueEntry> queues(int64_t{queries} * kCapacity);
  std::vector<float> values;
  for (int32_t query = 0; query < queries; ++query) {
    const std::vector<float> one = MakeQuery(corpus_, QueryFamily::kGaussian, random_);
    values.insert(values.end(), one.begin(), one.end());
  }
  vectors.Set(values);
  k.Set(std::vector<int32_t>(static_cast<size_t>(queries), 10));
  args.vectors = vectors.data();
  args.k = k.data();
  args.first = first.data();
  args.second = second.data();
  args.state = state.data();
  args.queues = queues.data();
  ASSERT_EQ(LaunchBatchEncode(args, nullptr), cudaSuccess);

  // The state after a stage that overflowed every third queue. The others are empty, so their
  // threshold stays at -inf.
  std::vector<BatchQuery> states = state.Get();
  for (size_t i = 0; i < states.size(); i += 3) states[i].listed = kCapacity + 1;
  state.Set(states);
  const BatchStage before = {.step = 16, .done_step = 32, .tiles = kTiles / 32};
  ASSERT_EQ(LaunchBatchRefine(RowType::kFloat32, args, before, core_->batch_device(), nullptr),
            cudaSuccess);
  const BatchStage after = {.step = 1, .done_step = 16, .tiles = kTiles - kTiles / 16};
  ASSERT_EQ(LaunchBatchScan(RowType::kFloat32, args, after, core_->batch_device(), nullptr),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);

  states = state.Get();
  for (size_t i = 0; i < states.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(states[i].overflow, i % 3 == 0 ? 1u : 0u);
    EXPECT_EQ(states[i].listed, i % 3 == 0 ? kCapacity + 1 : after.tiles * kBatchTileRows);
  }
}

// Up to 64 queries use the scan that keeps the queries in shared memory; more use the one that
// holds them in registers.
INSTANTIATE_TEST_SUITE_P(Queries, BatchOverflowTest, ::testing::Values(7, 40, 64, 65, 130, 256),
                         [](const auto& param) { return std::to_string(param.param); });

}  // namespace
}  // namespace nearfield::gpu

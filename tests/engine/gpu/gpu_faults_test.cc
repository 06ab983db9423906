// Checks that the engine never allocates after creation, and never answers once the device is lost.

#include <cuda_runtime_api.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/status_macros.h"
#include "tests/engine/gpu/cuda_interposer.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr int32_t kDim = 40;
constexpr int64_t kRows = 500;

class GpuFaultsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    rows_.resize(kRows * kDim);
    for (float& value : rows_) value = random_.Gaussian();
    queries_.assign(rows_.begin(), rows_.begin() + 3 * kDim);
  }
  void TearDown() override { PlantCudaFault(0, cudaSuccess); }

  // Loads and commits all rows.
  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Load(backend::Backend& backend,
                                                           const backend::RowFormat& format) {
    ABSL_ASSIGN_OR_RETURN(auto planes, backend.Reserve(format, kRows));
    ABSL_RETURN_IF_ERROR(planes->Append(rows_.data(), kRows));
    std::vector<uint64_t> ids(format.numeric_ids ? size_t{kRows} : 0);
    std::iota(ids.begin(), ids.end(), uint64_t{0});
    ABSL_RETURN_IF_ERROR(planes->Seal({.ranks = AscendingRanks(kRows), .ids = ids}));
    return planes;
  }
  absl::StatusOr<std::unique_ptr<backend::RowPlanes>> Load(backend::Backend& backend) {
    return Load(backend, kFormat);
  }

  absl::Status Search(backend::Backend& backend, const backend::RowPlanes& planes) {
    const backend::QueryTile tile = {.queries = queries_.data(), .k = k_};
    const backend::GenerationView view = {.planes = &planes, .rows_live = kRows};
    return backend.Search(kFormat, {&view, 1}, tile, &best_, nullptr);
  }

  // Copies ids and the first queries to the device and searches there. The memory is that of
  // *memory, which is taken first if it is null.
  absl::Status SearchOnDevice(backend::Backend& backend, const backend::RowPlanes& planes,
                              const backend::RowFormat& format, int64_t queries_count,
                              std::unique_ptr<DeviceMemory>* memory) {
    constexpr int32_t kOnDevice = 10;
    if (*memory == nullptr) {
      ABSL_ASSIGN_OR_RETURN(*memory, backend.TakeDeviceMemory(64 << 10));
      EXPECT_EQ(cudaMemcpy((*memory)->data(), queries_.data(), queries_.size() * sizeof(float),
                           cudaMemcpyDefault),
                cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
    }
    char* const base = (*memory)->data();
    const backend::DeviceTile tile = {.queries = base,
                                      .queries_count = queries_count,
                                      .k = kOnDevice,
                                      .scores = reinterpret_cast<float*>(base + (16 << 10)),
                                      .ids = reinterpret_cast<uint64_t*>(base + (32 << 10)),
                                      .counts = reinterpret_cast<int32_t*>(base + (48 << 10))};
    const backend::GenerationView view = {.planes = &planes, .rows_live = kRows};
    backend::QueryFault fault;
    return backend.SearchOnDevice(format, {&view, 1}, tile, &fault, nullptr);
  }

  const backend::RowFormat kFormat = {.dim = kDim};
  const std::vector<int32_t> k_ = {1, 10, 100};
  backend::RankedLists best_;  // of the last search
  std::vector<float> rows_;
  std::vector<float> queries_;
};

TEST_F(GpuFaultsTest, TenThousandSearchesAllocateNothing) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  EXPECT_GT(CudaAllocationCalls(), 0) << "the interposer is not linked in";
  const int64_t created = CudaAllocationCalls();
  ASSERT_OK_AND_ASSIGN(auto planes, Load(*backend));
  ASSERT_OK(Search(*backend, *planes));
  const Ranked first = ToBits(best_.list(2, 0));
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_OK(Search(*backend, *planes));
    ASSERT_EQ(ToBits(best_.list(2, 0)), first);
  }
  EXPECT_EQ(CudaAllocationCalls(), created);
}

// Plants a sticky error in each call of an upload and a search, one at a time. That call's
// operation fails with the reason, and so does every later one, although the device itself still
// works.
TEST_F(GpuFaultsTest, ALostDeviceIsUnavailableForEver) {
  int64_t calls = 0;  // of one upload and one search
  {
    const auto backend = MakeEngine(64 * kMiB);
    ASSERT_NE(backend, nullptr);
    const int64_t before = CudaFaultableCalls();
    ASSERT_OK_AND_ASSIGN(auto planes, Load(*backend));
    ASSERT_OK(Search(*backend, *planes));
    calls = CudaFaultableCalls() - before;
  }
  ASSERT_GT(calls, 8);
  for (int64_t nth = 1; nth <= calls; ++nth) {
    SCOPED_TRACE(nth);
    const auto backend = MakeEngine(64 * kMiB);
    ASSERT_NE(backend, nullptr);
    EXPECT_OK(backend->Health());
    PlantCudaFault(nth, cudaErrorIllegalAddress);
    auto planes = Load(*backend);
    absl::Status status = planes.status();
    if (planes.ok()) status = Search(*backend, **planes);
    ASSERT_THAT(status, StatusIs(kUnavailable, HasSubstr("cudaErrorIllegalAddress")));
    for (int again = 0; again < 3; ++again) {
      ASSERT_EQ(backend->Health(), status);
      ASSERT_EQ(Load(*backend).status(), status);
      if (planes.ok()) {
        ASSERT_EQ(backend->MakeTombstones(**planes, {1}).status(), status);
        ASSERT_EQ(Search(*backend, **planes), status);
        std::vector<float> out(kDim);
        ASSERT_EQ((*planes)->ReadRange(0, 1, out.data()), status);
      }
    }
  }
}

// The same for searches on the device: one query and a batch, of rows and of codes.
TEST_F(GpuFaultsTest, ALostDeviceIsUnavailableForSearchesOnTheDevice) {
  for (const ScanPrecision scan : {ScanPrecision::kRows, ScanPrecision::kInt8}) {
    for (const int64_t queries : {1, 3}) {
      const backend::RowFormat format = {.dim = kDim, .scan = scan, .numeric_ids = true};
      const auto backend = MakeEngine(64 * kMiB);
      ASSERT_NE(backend, nullptr);
      ASSERT_OK_AND_ASSIGN(const auto planes, Load(*backend, format));
      std::unique_ptr<DeviceMemory> memory;
      ASSERT_OK(SearchOnDevice(*backend, *planes, format, queries, &memory));
      const int64_t before = CudaFaultableCalls();
      const int64_t created = CudaAllocationCalls();
      ASSERT_OK(SearchOnDevice(*backend, *planes, format, queries, &memory));
      EXPECT_EQ(CudaAllocationCalls(), created);
      const int64_t calls = CudaFaultableCalls() - before;
      ASSERT_GT(calls, 4);
      for (int64_t nth = 1; nth <= calls; ++nth) {
        SCOPED_TRACE(::testing::Message() << "precision " << static_cast<int>(scan) << ", call "
                                          << nth << " of " << calls);
        const auto faulty = MakeEngine(64 * kMiB);
        ASSERT_NE(faulty, nullptr);
        ASSERT_OK_AND_ASSIGN(const auto rows, Load(*faulty, format));
        std::unique_ptr<DeviceMemory> at;
        ASSERT_OK(SearchOnDevice(*faulty, *rows, format, queries, &at));
        PlantCudaFault(nth, cudaErrorIllegalAddress);
        const absl::Status status = SearchOnDevice(*faulty, *rows, format, queries, &at);
        ASSERT_THAT(status, StatusIs(kUnavailable, HasSubstr("cudaErrorIllegalAddress")));
        ASSERT_EQ(faulty->Health(), status);
        ASSERT_EQ(SearchOnDevice(*faulty, *rows, format, queries, &at), status);
        ASSERT_EQ(faulty->TakeDeviceMemory(1).status(), status);
      }
    }
  }
}

}  // namespace
}  // namespace nearfield::gpu

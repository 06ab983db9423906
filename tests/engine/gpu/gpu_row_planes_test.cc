// Tests rows in device memory: read-back, memory accounting, and refused calls.

#include <cstring>
#include <vector>

#include "tests/engine/gpu/gpu_fixture.h"
#include "tests/testing/red_zone.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::gpu {
namespace {

using absl_testing::IsOkAndHolds;
using testing::RedZone;

class GpuRowPlanesTest : public GpuTest {
 protected:
  std::vector<uint8_t> Bytes(int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.Bits());
    return bytes;
  }
};

TEST_F(GpuRowPlanesTest, SmokeRowsComeBackAsTheyWereAppended) {
  const auto backend = MakeEngine(256 * kMiB, 64 * kMiB);
  ASSERT_NE(backend, nullptr);
  for (const RowType row_type : kRowTypes) {
    const RowPlacement home =
        row_type == RowType::kFloat16 ? RowPlacement::kHost : RowPlacement::kDevice;
    for (const int32_t dim :
         {1, 2, 31, 32, 33, 95, 96, 97, 127, 128, 129, 161, 255, 384, 1000, 8191, 8192}) {
      SCOPED_TRACE(dim);
      const int64_t row_bytes = int64_t{dim} * BytesPerElement(row_type);
      const int64_t rows = random_.Between(1, dim > 1000 ? 600 : 5000);
      const std::vector<uint8_t> bytes = Bytes(rows * row_bytes);
      const backend::RowFormat format = {.dim = dim, .row_type = row_type, .rows = home};
      ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, rows + 10));
      EXPECT_THAT(backend->DeviceBytesOf(format, rows + 10), IsOkAndHolds(planes->device_bytes()));
      for (int64_t done = 0; done < rows;) {
        const int64_t part = random_.Between(1, rows - done + 1);
        ASSERT_OK(planes->Append(bytes.data() + done * row_bytes, part));
        done += part;
      }
      ASSERT_OK(planes->Seal({.ranks = AscendingRanks(rows)}));
      ASSERT_EQ(planes->rows_count(), rows);
      RedZone<uint8_t> all(bytes.size());
      ASSERT_OK(planes->ReadRange(0, rows, all.data()));
      ASSERT_EQ(std::memcmp(all.data(), bytes.data(), bytes.size()), 0);
      ASSERT_TRUE(all.Intact());
      std::vector<uint32_t> slots;
      for (int i = 0; i < 50; ++i) slots.push_back(static_cast<uint32_t>(random_.Between(0, rows)));
      RedZone<uint8_t> some(slots.size() * static_cast<size_t>(row_bytes));
      ASSERT_OK(planes->Read(slots, some.data()));
      for (size_t i = 0; i < slots.size(); ++i) {
        ASSERT_EQ(std::memcmp(some.data() + static_cast<int64_t>(i) * row_bytes,
                              bytes.data() + slots[i] * row_bytes, static_cast<size_t>(row_bytes)),
                  0);
      }
      ASSERT_TRUE(some.Intact());
    }
  }
}

TEST_F(GpuRowPlanesTest, RowsAppendedFromAnotherGenerationComeBackToo) {
  const auto backend = MakeEngine(128 * kMiB, 16 * kMiB);
  ASSERT_NE(backend, nullptr);
  constexpr int32_t kOddDim = 133;
  constexpr int64_t kRows = 3000;
  for (const RowType row_type : kRowTypes) {
    const int64_t row_bytes = int64_t{kOddDim} * BytesPerElement(row_type);
    const std::vector<uint8_t> bytes = Bytes(kRows * row_bytes);
    const backend::RowFormat format = {
        .dim = kOddDim,
        .row_type = row_type,
        .rows = row_type == RowType::kBFloat16 ? RowPlacement::kHost : RowPlacement::kDevice};
    auto from = backend->Reserve(format, kRows);
    auto to = backend->Reserve(format, 2 * kRows);
    ASSERT_OK(from);
    ASSERT_OK(to);
    ASSERT_OK((*from)->Append(bytes.data(), kRows));
    ASSERT_OK((*from)->Seal({.ranks = AscendingRanks(kRows)}));
    std::vector<uint32_t> slots = AscendingRanks(kRows);
    random_.Shuffle(slots);
    ASSERT_OK((*to)->Append(bytes.data(), 7));
    ASSERT_OK((*to)->AppendFrom(**from, slots));
    ASSERT_OK((*to)->Seal({.ranks = AscendingRanks(7 + kRows)}));
    std::vector<uint8_t> got(static_cast<size_t>(kRows * row_bytes));
    ASSERT_OK((*to)->ReadRange(7, kRows, got.data()));
    for (int64_t i = 0; i < kRows; ++i) {
      ASSERT_EQ(std::memcmp(got.data() + i * row_bytes,
                            bytes.data() + slots[static_cast<size_t>(i)] * row_bytes,
                            static_cast<size_t>(row_bytes)),
                0);
    }
  }
}

TEST_F(GpuRowPlanesTest, MemoryIsCountedAndComesBack) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->device_bytes_total(), 64 * kMiB);
  EXPECT_EQ(backend->device_bytes_used(), 0);
  {
    ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve({.dim = 1024}, 10'000));
    const int64_t reserved = planes->device_bytes();
    EXPECT_GE(reserved, 10'000 * 4096);
    EXPECT_EQ(backend->device_bytes_used(), reserved);
    EXPECT_THAT(backend->Reserve({.dim = 1024}, 10'000),
                StatusIs(kResourceExhausted, HasSubstr("bytes needed")));
    const std::vector<float> rows(1024, 1.0f);
    ASSERT_OK(planes->Append(rows.data(), 1));
    ASSERT_OK(planes->Seal({.ranks = AscendingRanks(1)}));
    EXPECT_LT(planes->device_bytes(), kMiB);  // the unused part is released
    ASSERT_OK_AND_ASSIGN(auto tombstones, backend->MakeTombstones(*planes, {1}));
    EXPECT_GT(backend->device_bytes_used(), planes->device_bytes());
  }
  EXPECT_EQ(backend->device_bytes_used(), 0);
}

TEST_F(GpuRowPlanesTest, RowsOnTheHostAreCountedThere) {
  const auto backend = MakeEngine(64 * kMiB, 32 * kMiB);
  ASSERT_NE(backend, nullptr);
  EXPECT_EQ(backend->host_rows_bytes_total(), 32 * kMiB);
  const backend::RowFormat format = {
      .dim = 1024, .scan = ScanPrecision::kInt8, .rows = RowPlacement::kHost};
  {
    ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, 6'000));
    EXPECT_GE(planes->host_bytes(), 6'000 * 4096);
    EXPECT_EQ(backend->host_rows_bytes_used(), planes->host_bytes());
    EXPECT_LT(planes->device_bytes(), 8 * kMiB);  // codes, bounds, norms and ranks
    EXPECT_EQ(backend->device_bytes_used(), planes->device_bytes());
    const int64_t device_bytes_used = backend->device_bytes_used();
    EXPECT_THAT(backend->Reserve(format, 6'000),
                StatusIs(kResourceExhausted, HasSubstr("host memory of rows")));
    EXPECT_EQ(backend->device_bytes_used(), device_bytes_used);
    const std::vector<float> rows(1024, 1.0f);
    ASSERT_OK(planes->Append(rows.data(), 1));
    ASSERT_OK(planes->Seal({.ranks = AscendingRanks(1)}));
    EXPECT_LT(planes->host_bytes(), kMiB);
  }
  EXPECT_EQ(backend->host_rows_bytes_used(), 0);
  EXPECT_EQ(backend->device_bytes_used(), 0);
}

TEST_F(GpuRowPlanesTest, AnUploadThatBreaksOffLeavesNothing) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  const std::vector<float> rows(int64_t{1024} * 1024 * 8, 1.0f);
  for (int i = 0; i < 5; ++i) {
    ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve({.dim = 1024}, 8192));
    ASSERT_OK(planes->Append(rows.data(), 8192));
  }
  EXPECT_EQ(backend->device_bytes_used(), 0);
}

TEST_F(GpuRowPlanesTest, PlanesMayOutliveTheBackend) {
  auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve({.dim = 3}, 2));
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6};
  ASSERT_OK(planes->Append(rows.data(), 2));
  backend.reset();
  ASSERT_OK(planes->Seal({.ranks = AscendingRanks(2)}));
  std::vector<float> got(6);
  ASSERT_OK(planes->ReadRange(0, 2, got.data()));
  EXPECT_EQ(got, rows);
}

TEST_F(GpuRowPlanesTest, RefusesWhatDoesNotFitByName) {
  const auto backend = MakeEngine(64 * kMiB);
  ASSERT_NE(backend, nullptr);
  EXPECT_THAT(backend->Reserve({.dim = 2}, 0),
              StatusIs(kInvalidArgument, HasSubstr("rows_max = 0")));
  EXPECT_THAT(backend->Reserve({.dim = kDimMax + 1}, 1),
              StatusIs(kInvalidArgument, HasSubstr("dim = 8193")));
  EXPECT_THAT(backend->Reserve({.dim = kDimMax}, kRowsMax), StatusIs(kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve({.dim = 2}, 2));
  std::vector<float> rows(6);
  EXPECT_THAT(planes->Append(rows.data(), 3), StatusIs(kResourceExhausted));
  ASSERT_OK(planes->Append(rows.data(), 2));
  EXPECT_THAT(planes->Seal({.ranks = AscendingRanks(1)}), StatusIs(kInvalidArgument));
  EXPECT_THAT(planes->ReadRange(0, 1, rows.data()), StatusIs(kFailedPrecondition));
  ASSERT_OK(planes->Seal({.ranks = AscendingRanks(2)}));
  EXPECT_THAT(planes->Append(rows.data(), 0), StatusIs(kFailedPrecondition));
  EXPECT_THAT(planes->Read({2}, rows.data()), StatusIs(kInvalidArgument, HasSubstr("slot 2")));
  EXPECT_THAT(planes->ReadRange(1, 2, rows.data()), StatusIs(kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(auto other, backend->Reserve({.dim = 3}, 2));
  EXPECT_THAT(other->AppendFrom(*planes, {0}), StatusIs(kInvalidArgument));
}

TEST_F(GpuRowPlanesTest, TheSealedArenaRefusesToAllocate) {
  const auto core = MakeCore(64 * kMiB);
  ASSERT_NE(core, nullptr);
  EXPECT_THAT(core->arena().TakeWorkspace(1), StatusIs(kFailedPrecondition, HasSubstr("sealed")));
  EXPECT_THAT(core->arena().Create(core->health(), {.workspace_bytes = 1, .slab_bytes = kMiB}),
              StatusIs(kFailedPrecondition));
}

}  // namespace
}  // namespace nearfield::gpu

// Tests that several devices together give the answers of one, to the bit, however they share the
// rows.
#include "engine/multi/multi_backend.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/cpu/reference.h"
#include "tests/engine/cpu/scenario.h"
#include "tests/engine/prelude.h"

namespace nearfield::multi {
namespace {

constexpr int32_t kDeviceCounts[] = {1, 2, 3, 5, 8};

std::unique_ptr<backend::Backend> MakeMulti(int32_t devices, const DeviceSpread& spread,
                                            int64_t memory_bytes = int64_t{64} << 20) {
  std::vector<NamedBackend> backends;
  for (int32_t d = 0; d < devices; ++d) {
    backends.push_back({absl::StrCat("device ", d), MakeBackend("", 1, memory_bytes)});
  }
  return MakeMultiBackend(std::move(backends), spread);
}

class MultiBackendTest : public ::testing::Test {
 protected:
  // Random stripes; generations of up to some size are on one device.
  DeviceSpread AnySpread() {
    return {.one_device_bytes = random_.OneIn(2) ? 0 : random_.Between(0, 20'000),
            .stripe_rows = random_.OneOf<int64_t>({1, 3, 64, 100, 1024})};
  }
  CollectionSpec AnySpec() {
    return {.dim = static_cast<int32_t>(random_.Between(1, 40)),
            .metric = random_.OneOf<Metric>(kMetrics),
            .row_type = random_.OneOf<RowType>(kRowTypes),
            .scan = random_.OneOf<ScanChoice>({ScanChoice::kInt8, ScanChoice::kRows})};
  }

  Random random_{TestSeed()};
};

TEST_F(MultiBackendTest, EqualsTheReferenceForEveryNumberOfDevices) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    for (const int32_t devices : kDeviceCounts) {
      SCOPED_TRACE(::testing::Message() << testing::Name(family) << ", " << devices << " devices");
      const auto backend = MakeMulti(devices, AnySpread());
      const Scenario scenario = DrawScenario(
          AnySpec(), family,
          {.generations_end = 6, .rows_of_small_end = 20, .rows_end = 700, .queries_end = 20},
          random_);
      ExpectReferenceAnswers(*backend, scenario);
      if (HasFailure()) return;
    }
  }
}

TEST_F(MultiBackendTest, RowTermsEqualTheReferenceForEveryNumberOfDevices) {
  for (const CorpusFamily family : testing::kCorpusFamilies) {
    for (const int32_t devices : kDeviceCounts) {
      SCOPED_TRACE(::testing::Message() << testing::Name(family) << ", " << devices << " devices");
      const auto backend = MakeMulti(devices, AnySpread());
      EXPECT_TRUE(backend->info().row_terms);
      Scenario scenario = DrawScenario(
          AnySpec(), family,
          {.generations_end = 4, .rows_of_small_end = 20, .rows_end = 300, .queries_end = 8},
          random_);
      scenario.AddTerms(random_);
      ExpectReferenceAnswers(*backend, scenario);
      if (HasFailure()) return;
    }
  }
}

// Some generations are on one device only.
TEST_F(MultiBackendTest, QueriesWithDifferentFiltersEqualTheReference) {
  for (const int32_t devices : kDeviceCounts) {
    for (int i = 0; i < 5; ++i) {
      SCOPED_TRACE(::testing::Message() << devices << " devices");
      const auto backend = MakeMulti(devices, AnySpread());
      Scenario scenario = DrawScenario(
          AnySpec(), CorpusFamily::kGaussian,
          {.generations_end = 6, .rows_of_small_end = 20, .rows_end = 700, .queries_end = 20},
          random_);
      scenario.AddFilters(random_);
      ExpectReferenceAnswers(*backend, scenario);
      if (HasFailure()) return;
    }
  }
}

// Rows are read back, and copied to other generations, as one device would.
TEST_F(MultiBackendTest, RowsAreReadAndCopiedWhereverTheyAre) {
  for (const int32_t devices : kDeviceCounts) {
    SCOPED_TRACE(devices);
    const auto backend = MakeMulti(devices, AnySpread());
    const CollectionSpec spec = AnySpec();
    std::vector<LoadedGeneration> sources;
    const backend::RowFormat format = testing::FormatOf(spec);
    ASSERT_OK_AND_ASSIGN(auto planes, backend->Reserve(format, 2'000));
    std::vector<uint8_t> rows;
    for (int source = 0; source < 3; ++source) {
      const HostGeneration host = testing::MakeGeneration(
          MakeCorpus(spec, CorpusFamily::kGaussian, random_.Between(1, 600), random_.Bits()),
          RankOrder::kShuffled, false, random_);
      sources.push_back(testing::Load(*backend, host));
      std::vector<uint32_t> slots;
      for (uint32_t slot = 0; slot < host.ranks.size(); ++slot) {
        if (random_.OneIn(3)) continue;
        slots.push_back(slot);
        const auto row = host.corpus.row(slot);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      ASSERT_OK(planes->AppendFrom(*sources.back().planes, slots));
    }
    const auto row_bytes = static_cast<size_t>(spec.dim * BytesPerElement(spec.row_type));
    const auto count = static_cast<int64_t>(rows.size() / row_bytes);
    ASSERT_EQ(planes->rows_count(), count);
    std::vector<uint32_t> ranks(static_cast<size_t>(count));
    std::iota(ranks.begin(), ranks.end(), 0u);
    random_.Shuffle(ranks);
    ASSERT_OK(planes->Seal({.ranks = ranks}));
    std::vector<uint8_t> all(rows.size());
    ASSERT_OK(planes->ReadRange(0, count, all.data()));
    EXPECT_EQ(all, rows);
    const int64_t begin = random_.Between(0, count);
    std::vector<uint8_t> some(static_cast<size_t>(count - begin) * row_bytes);
    ASSERT_OK(planes->ReadRange(begin, count - begin, some.data()));
    EXPECT_EQ(
        std::memcmp(some.data(), rows.data() + static_cast<size_t>(begin) * row_bytes, some.size()),
        0);
    std::vector<uint32_t> order(ranks);
    std::vector<uint8_t> picked(rows.size());
    ASSERT_OK(planes->Read(order, picked.data()));
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(
          std::memcmp(picked.data() + i * row_bytes, rows.data() + order[i] * row_bytes, row_bytes),
          0);
    }
    EXPECT_THAT(planes->ReadRange(0, count + 1, all.data()), StatusIs(kInvalidArgument));
    EXPECT_THAT(planes->Read({static_cast<uint32_t>(count)}, all.data()),
                StatusIs(kInvalidArgument));
  }
}

// A search over few live rows gets them as a list too.
TEST_F(MultiBackendTest, ListedRowsAreFoundOnTheirDevices) {
  for (const int32_t devices : kDeviceCounts) {
    const auto backend = MakeMulti(devices, AnySpread());
    const CollectionSpec spec = AnySpec();
    HostGeneration host =
        testing::MakeGeneration(MakeCorpus(spec, CorpusFamily::kGaussian, 500, random_.Bits()),
                                RankOrder::kShuffled, false, random_);
    host.deleted_words.assign(8, ~uint64_t{0});
    host.deleted_words[7] = (uint64_t{1} << (500 % 64)) - 1;
    std::vector<uint32_t> live;
    for (uint32_t slot = 0; slot < 500; ++slot) {
      if (!random_.OneIn(40)) continue;
      live.push_back(slot);
      host.deleted_words[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    }
    host.rows_live = static_cast<int64_t>(live.size());
    LoadedGeneration loaded = testing::Load(*backend, host);
    loaded.view.live_slots = live;
    const std::vector<float> query = MakeQuery(host.corpus, QueryFamily::kGaussian, random_);
    const std::vector<int32_t> k = {10};
    backend::RankedLists best;
    backend::ScanCost cost;
    ASSERT_OK(backend->Search(testing::FormatOf(spec), {loaded.view}, testing::TileOf(query, k),
                              &best, &cost));
    const auto expected = testing::ReferenceTop(host, query, 10);
    ASSERT_EQ(best.list(0, 0).size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(best.list(0, 0)[i].score, expected[i].score);
      EXPECT_EQ(best.list(0, 0)[i].rank, expected[i].rank);
    }
  }
}

TEST_F(MultiBackendTest, LargeGenerationsAreOnAllDevicesAndSmallOnesOnTheEmptiest) {
  const auto backend = MakeMulti(3, {.one_device_bytes = 40'000, .stripe_rows = 10});
  const backend::RowFormat format = {.dim = 10};
  const auto used = [&] {
    std::vector<int64_t> bytes;
    for (const DeviceCapacity& device : backend->devices()) bytes.push_back(device.bytes_used);
    return bytes;
  };
  ASSERT_OK_AND_ASSIGN(const auto first, backend->Reserve(format, 1'000));
  const int64_t small = used()[0];
  EXPECT_GT(small, 0);
  EXPECT_THAT(used(), ElementsAre(small, 0, 0));
  ASSERT_OK_AND_ASSIGN(const auto second, backend->Reserve(format, 1'000));
  EXPECT_THAT(used(), ElementsAre(small, small, 0));
  ASSERT_OK_AND_ASSIGN(const auto large, backend->Reserve(format, 3'000));
  EXPECT_THAT(used(), ElementsAre(2 * small, 2 * small, small));
  ASSERT_OK_AND_ASSIGN(const int64_t bytes, backend->DeviceBytesOf(format, 3'000));
  EXPECT_EQ(bytes, 3 * small);
  EXPECT_EQ(backend->device_bytes_used(), 5 * small);
  EXPECT_EQ(backend->devices()[1].name,
            absl::StrCat("device 1 (", MakeBackend("", 1)->info().device_name, ")"));
}

// Regression: an upload for one device, or for equal parts of all, was refused although the devices
// together had the memory.
TEST_F(MultiBackendTest, RowsForWhichADeviceHasNoMemoryGoToTheOthers) {
  constexpr int64_t kBytes = 400'000;
  for (const int32_t devices : {0, 1, 2, 3}) {
    const backend::RowFormat format = {.dim = 10, .devices = devices};
    const auto backend = MakeMulti(3, {.one_device_bytes = kBytes, .stripe_rows = 10}, kBytes);
    // Leaves devices with different free memory.
    ASSERT_OK_AND_ASSIGN(const auto first, backend->Reserve({.dim = 10, .devices = 1}, 3'000));
    ASSERT_OK_AND_ASSIGN(const auto second, backend->Reserve({.dim = 10, .devices = 1}, 1'000));
    const int64_t row_bytes = *backend->DeviceBytesOf({.dim = 10, .devices = 1}, 1'000) / 1'000;
    const int64_t rows = (backend->device_bytes_total() - backend->device_bytes_used()) / row_bytes;
    EXPECT_THAT(backend->Reserve(format, rows + 100), StatusIs(kResourceExhausted));
    const int64_t fitting = rows - 100;
    ASSERT_OK_AND_ASSIGN(const auto planes, backend->Reserve(format, fitting));
    const std::vector<float> values(static_cast<size_t>(fitting * 10), 1.0f);
    ASSERT_OK(planes->Append(values.data(), fitting));
    EXPECT_EQ(planes->rows_count(), fitting);
    EXPECT_THAT(planes->Append(values.data(), 1), StatusIs(kResourceExhausted));
  }
}

TEST_F(MultiBackendTest, AFullDeviceIsNamedAndNothingStaysReserved) {
  const auto backend = MakeMulti(2, {.one_device_bytes = 0, .stripe_rows = 10}, 100'000);
  EXPECT_THAT(backend->Reserve({.dim = 32}, 10'000),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("device 0: "), HasSubstr("100000"))));
  EXPECT_EQ(backend->device_bytes_used(), 0);
}

}  // namespace
}  // namespace nearfield::multi

// Compares the selection kernel with std::sort: adversarial keys, every k around the borders, one
// and several blocks.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "engine/score/order.h"
#include "engine/topk/select.h"
#include "tests/engine/gpu/device_array.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr uint64_t kPoison = 0xa5a5a5a5a5a5a5a5u;
constexpr int64_t kGuard = 64;  // keys

enum class Keys : uint8_t {
  kRandomBits,
  kGaussianScores,
  kAllEqualScores,
  kTwoScores,
  kOneUlpApart,
  kAscending,
  kDescending,
  kMinusInfinity,
  kMostlyDead,
  kSmallNumbers,
};
constexpr Keys kAllKeys[] = {Keys::kRandomBits,  Keys::kGaussianScores, Keys::kAllEqualScores,
                             Keys::kTwoScores,   Keys::kOneUlpApart,    Keys::kAscending,
                             Keys::kDescending,  Keys::kMinusInfinity,  Keys::kMostlyDead,
                             Keys::kSmallNumbers};

float ScoreOf(Keys kind, int64_t i, int64_t count, Random& random) {
  switch (kind) {
    case Keys::kTwoScores: return random.OneIn(2) ? 1.0f : -1.0f;
    case Keys::kOneUlpApart:
      return score::FloatFromBits(0x3f800000u + static_cast<uint32_t>(random.Between(0, 3)));
    case Keys::kAscending: return static_cast<float>(i);
    case Keys::kDescending: return static_cast<float>(count - i);
    case Keys::kMinusInfinity: return score::MinusInfinity();
    case Keys::kAllEqualScores: return 0.25f;
    default: return random.Gaussian();
  }
}

// Returns `count` keys, unique except for kNoKey.
std::vector<uint64_t> MakeKeys(Keys kind, int64_t count, Random& random) {
  std::vector<uint32_t> ranks(static_cast<size_t>(count));
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<uint32_t>(i);
  random.Shuffle(ranks);
  std::vector<uint64_t> keys(ranks.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (kind == Keys::kSmallNumbers) {
      keys[i] = ranks[i];  // one of them is kNoKey
    } else if (kind == Keys::kRandomBits) {
      keys[i] = (random.Bits() << 32) | ranks[i];
    } else {
      keys[i] = score::OrderKey(ScoreOf(kind, static_cast<int64_t>(i), count, random), ranks[i]);
      if (kind == Keys::kMostlyDead && !random.OneIn(50)) keys[i] = score::kNoKey;
    }
  }
  return keys;
}

std::vector<uint64_t> Expected(std::vector<uint64_t> keys, int32_t k) {
  keys.erase(std::remove(keys.begin(), keys.end(), score::kNoKey), keys.end());
  const auto kept = std::min(keys.size(), static_cast<size_t>(k));
  std::partial_sort(keys.begin(), keys.begin() + static_cast<int64_t>(kept), keys.end(),
                    std::greater<>());
  keys.resize(kept);
  return keys;
}

// Several problems in one launch: queries with different keys, pieces of different lengths.
struct Launch {
  std::vector<std::vector<uint64_t>> piece_keys;  // by piece: one list, rotated for each query
  std::vector<int32_t> k;                         // by query
  int groups = 1;
  int blocks_per_group = 1;
};

class SelectTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    int shared_bytes = 0;
    ASSERT_EQ(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0),
              cudaSuccess);
    first_shape_ = SelectShapeFor(shared_bytes);
    for (int shape = first_shape_; shape < kShapes; ++shape) {
      ASSERT_EQ(PrepareSelect(shape), cudaSuccess) << "shape " << shape;
    }
    candidates_ = std::make_unique<DeviceArray<uint64_t>>(kSelectCandidateBytes / 8);
    groups_ = std::make_unique<DeviceArray<GroupState>>(kGroupsMax);
  }

  // Checks every shape that the device has the shared memory for.
  void ExpectSorted(const Launch& launch) {
    const auto queries = static_cast<int64_t>(launch.k.size());
    const auto pieces = static_cast<int64_t>(launch.piece_keys.size());
    SelectArgs args;
    int64_t pitch = 0;
    for (int64_t p = 0; p < pieces; ++p) {
      const auto count = static_cast<int64_t>(launch.piece_keys[static_cast<size_t>(p)].size());
      args.pieces[p] = {
          .key_begin = pitch, .keys_count = count, .result_slot = static_cast<int32_t>(p)};
      pitch += (count + 15) / 16 * 16;
    }
    std::vector<uint64_t> keys(static_cast<size_t>(queries * pitch),
                               ~uint64_t{0});  // padding must not be read
    std::vector<std::vector<uint64_t>> expected(static_cast<size_t>(pieces * queries));
    for (int64_t q = 0; q < queries; ++q) {
      for (int64_t p = 0; p < pieces; ++p) {
        std::vector<uint64_t> list = launch.piece_keys[static_cast<size_t>(p)];
        std::rotate(list.begin(), list.begin() + q % static_cast<int64_t>(list.size()), list.end());
        const auto dropped = std::min(static_cast<size_t>(q), list.size() - 1);
        list.resize(list.size() - dropped);
        list.resize(launch.piece_keys[static_cast<size_t>(p)].size(), score::kNoKey);
        std::copy(list.begin(), list.end(), keys.begin() + q * pitch + args.pieces[p].key_begin);
        expected[static_cast<size_t>(p * queries + q)] =
            Expected(std::move(list), launch.k[static_cast<size_t>(q)]);
      }
    }
    const int32_t k_max = *std::max_element(launch.k.begin(), launch.k.end());
    const int64_t results_pitch = (k_max + 15) / 16 * 16 + kGuard;
    DeviceArray<uint64_t> device_keys(static_cast<int64_t>(keys.size()));
    device_keys.Set(keys);
    DeviceArray<int32_t> device_k(queries);
    device_k.Set(launch.k);
    DeviceArray<uint64_t> results(pieces * queries * results_pitch);
    DeviceArray<SelectCount> counts(pieces * queries);
    args.keys = device_keys.data();
    args.keys_pitch = pitch;
    args.queries_count = static_cast<int32_t>(queries);
    args.k = device_k.data();
    args.pieces_count = static_cast<int32_t>(pieces);
    args.blocks_per_group = launch.blocks_per_group;
    args.groups = groups_->data();
    args.candidates = candidates_->data();
    args.results = results.data();
    args.results_pitch = static_cast<int32_t>(results_pitch);
    args.counts = counts.data();
    for (int shape = first_shape_; shape < kShapes; ++shape) {
      SCOPED_TRACE(::testing::Message() << "shape " << shape);
      results.Set(
          std::vector<uint64_t>(static_cast<size_t>(pieces * queries * results_pitch), kPoison));
      ASSERT_EQ(LaunchSelect(shape, launch.groups, args, nullptr), cudaSuccess);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      ExpectResults(expected, results.Get(), counts.Get(), shape);
      if (HasFatalFailure()) return;
    }
  }

  void ExpectResults(const std::vector<std::vector<uint64_t>>& expected,
                     const std::vector<uint64_t>& got, const std::vector<SelectCount>& got_counts,
                     int shape) {
    const auto results_pitch = static_cast<int64_t>(got.size() / expected.size());
    for (size_t list = 0; list < expected.size(); ++list) {
      const auto first = got.begin() + static_cast<int64_t>(list) * results_pitch;
      const auto kept = static_cast<int64_t>(expected[list].size());
      ASSERT_EQ(got_counts[list].kept, kept) << "list " << list;
      ASSERT_GE(got_counts[list].candidates, got_counts[list].kept);
      ASSERT_LE(got_counts[list].candidates,
                static_cast<uint32_t>(kSelectShapes[static_cast<size_t>(shape)].capacity));
      ASSERT_EQ(std::vector<uint64_t>(first, first + kept), expected[list]) << "list " << list;
      ASSERT_EQ(std::count(first + kept, first + results_pitch, kPoison), results_pitch - kept)
          << "written past the end of list " << list;
    }
    for (const GroupState& group : groups_->Get()) {
      ASSERT_EQ(group.arrived, 0u);
      ASSERT_EQ(group.left, 0u);
      ASSERT_LT(group.rounds, 3u);
    }
  }

  static constexpr int kShapes = static_cast<int>(kSelectShapes.size());
  int first_shape_ = 0;
  std::unique_ptr<DeviceArray<uint64_t>> candidates_;
  std::unique_ptr<DeviceArray<GroupState>> groups_;
};

TEST(SelectShape, FollowsTheSharedMemoryOfABlock) {
  EXPECT_EQ(SelectShapeFor(227 * 1024), 0);  // compute capability 9.0, 10.0
  EXPECT_EQ(SelectShapeFor(163 * 1024), 0);  // 8.0
  EXPECT_EQ(SelectShapeFor(99 * 1024), 1);   // 8.6, 8.9, 12.0
  EXPECT_EQ(SelectShapeFor(64 * 1024), 2);   // 7.5
}

TEST_F(SelectTest, SmokeOneAndSeveralBlocks) {
  for (const int blocks : {1, 3}) {
    for (const Keys kind : {Keys::kGaussianScores, Keys::kAllEqualScores}) {
      ExpectSorted({.piece_keys = {MakeKeys(kind, 20'000, random_)},
                    .k = {100},
                    .blocks_per_group = blocks});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SelectTest, EqualsSortForEveryKindOfKeysAndSize) {
  for (const Keys kind : kAllKeys) {
    for (const int64_t count :
         {int64_t{1}, int64_t{2}, int64_t{1023}, int64_t{1024}, int64_t{1025}, int64_t{8191},
          int64_t{8192}, int64_t{8193}, int64_t{16'385}, int64_t{100'003}}) {
      for (const int blocks : {1, 2, 7}) {
        SCOPED_TRACE(::testing::Message() << "keys " << static_cast<int>(kind) << ", count "
                                          << count << ", blocks " << blocks);
        ExpectSorted({.piece_keys = {MakeKeys(kind, count, random_)},
                      .k = {static_cast<int32_t>(random_.Between(1, kSelectKMax + 1))},
                      .blocks_per_group = blocks});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(SelectTest, EqualsSortForEveryKAroundAPowerOfTwo) {
  const std::vector<uint64_t> gaussian = MakeKeys(Keys::kGaussianScores, 50'000, random_);
  const std::vector<uint64_t> equal = MakeKeys(Keys::kAllEqualScores, 50'000, random_);
  for (int32_t power = 1; power <= 4096; power *= 2) {
    for (const int32_t k : {power - 1, power, power + 1}) {
      if (k < 1) continue;
      SCOPED_TRACE(k);
      ExpectSorted({.piece_keys = {gaussian}, .k = {k}, .blocks_per_group = 6});
      ExpectSorted({.piece_keys = {equal}, .k = {k}, .blocks_per_group = 1});
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SelectTest, ManyProblemsShareTheGroups) {
  Launch launch;
  for (const int64_t count : {300, 40'000, 9000, 1}) {
    launch.piece_keys.push_back(MakeKeys(random_.OneOf<Keys>(kAllKeys), count, random_));
  }
  for (int i = 0; i < 9; ++i) launch.k.push_back(static_cast<int32_t>(random_.Between(1, 3000)));
  for (const int groups : {1, 5, 36}) {
    for (const int blocks : {1, 2, 3}) {
      launch.groups = groups;
      launch.blocks_per_group = blocks;
      SCOPED_TRACE(::testing::Message() << groups << " groups of " << blocks);
      ExpectSorted(launch);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_F(SelectTest, MillionsOfKeysOnTheWholeDevice) {
  for (const Keys kind :
       {Keys::kGaussianScores, Keys::kAllEqualScores, Keys::kOneUlpApart, Keys::kAscending}) {
    ExpectSorted(
        {.piece_keys = {MakeKeys(kind, 5'000'000, random_)}, .k = {4097}, .blocks_per_group = 100});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearfield::gpu

// The choice of an algorithm on devices with less shared memory than the test machine's. Host code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "engine/topk/algorithm.h"
#include "tests/bench/published/algorithms.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kKiB = 1024;
// Compute capability 7.5; 8.6, 8.9 and 12.0; 8.0; 9.0 and 10.0.
constexpr SelectDevice kDevices[] = {{68, 64 * kKiB, 64 * kKiB},
                                     {128, 99 * kKiB, 100 * kKiB},
                                     {108, 163 * kKiB, 164 * kKiB},
                                     {132, 227 * kKiB, 228 * kKiB}};

// Calls visit(shape, device) for shapes of rows of one length.
template <typename Visit>
void ForEachShape(const Visit& visit) {
  for (const SelectDevice& device : kDevices) {
    for (const int64_t batch : {1, 5, 68, 1024}) {
      for (const int64_t n : {1, 500, 3072, 16'384, 1'000'000}) {
        for (const int64_t k : {1, 64, 2048, 4097, 6144, 20'000}) {
          visit(SelectShape{.batch = batch, .n = n, .k = std::min(k, n)}, device);
        }
      }
    }
  }
}

TEST(SelectChoice, TheChosenAlgorithmServesTheShapeOnEveryDevice) {
  ForEachShape([](const SelectShape& shape, const SelectDevice& device) {
    const SelectAlgorithm& chosen = ChooseSelect(shape, device);
    EXPECT_EQ(chosen.refuses(shape, device), nullptr)
        << chosen.name << ": " << shape.batch << " x " << shape.n << ", k = " << shape.k;
    SelectShape ragged = shape;
    ragged.ragged = true;
    const SelectAlgorithm& other = ChooseSelect(ragged, device);
    EXPECT_EQ(other.refuses(ragged, device), nullptr) << other.name;
    if (shape.n == 1'000'000 && shape.k <= 2048) {
      EXPECT_EQ(&other, &kSampledThreshold) << shape.batch << " ragged rows, k = " << shape.k;
    }
  });
}

// The library of a user has no algorithm that serves no shape.
TEST(SelectChoice, EveryAlgorithmOfTheEngineIsChosenForSomeShape) {
  std::set<std::string> chosen;
  ForEachShape([&](const SelectShape& shape, const SelectDevice& device) {
    chosen.insert(ChooseSelect(shape, device).name);
  });
  std::set<std::string> all;
  for (const SelectAlgorithm* algorithm : AllSelectAlgorithms()) all.insert(algorithm->name);
  EXPECT_EQ(chosen, all);
}

// By its name an algorithm is forced.
TEST(SelectChoice, NoPublishedAlgorithmHasTheNameOfAnother) {
  std::set<std::string> names;
  for (const SelectAlgorithm* algorithm : AllSelectAlgorithms()) names.insert(algorithm->name);
  for (const SelectAlgorithm* algorithm : published::Algorithms()) {
    EXPECT_TRUE(names.insert(algorithm->name).second) << algorithm->name;
  }
}

}  // namespace
}  // namespace nearfield::gpu

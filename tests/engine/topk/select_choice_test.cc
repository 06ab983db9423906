// The choice of an algorithm on devices with less shared memory than the test machine's. Host code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "engine/topk/algorithm.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kKiB = 1024;
// Compute capability 7.5; 8.6, 8.9 and 12.0; 8.0; 9.0 and 10.0.
constexpr SelectDevice kDevices[] = {{68, 64 * kKiB, 64 * kKiB},
                                     {128, 99 * kKiB, 100 * kKiB},
                                     {108, 163 * kKiB, 164 * kKiB},
                                     {132, 227 * kKiB, 228 * kKiB}};

TEST(SelectChoice, TheChosenAlgorithmServesTheShapeOnEveryDevice) {
  for (const SelectDevice& device : kDevices) {
    for (const int64_t batch : {1, 5, 68, 1024}) {
      for (const int64_t n : {1, 500, 3072, 16'384, 1'000'000}) {
        for (const int64_t k : {1, 64, 2048, 4097, 6144, 20'000}) {
          const SelectShape shape = {.batch = batch, .n = n, .k = std::min(k, n)};
          const SelectAlgorithm& chosen = ChooseSelect(shape, device);
          EXPECT_EQ(chosen.refuses(shape, device), nullptr)
              << chosen.name << ": " << batch << " x " << n << ", k = " << shape.k;
          SelectShape ragged = shape;
          ragged.ragged = true;
          const SelectAlgorithm& other = ChooseSelect(ragged, device);
          EXPECT_EQ(other.refuses(ragged, device), nullptr) << other.name;
          if (n == 1'000'000 && shape.k <= 2048) {
            EXPECT_EQ(&other, &kSampledThreshold) << batch << " ragged rows, k = " << shape.k;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace nearfield::gpu

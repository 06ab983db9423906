// What the bound of a bf16 copy assumes of the tensor cores, on the device: sums are off by no more
// than Bf16TensorError, whatever cancels.
#include "tests/engine/gpu/bf16_sums.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "engine/score/bf16_bound.h"
#include "engine/score/row_types.h"
#include "tests/engine/gpu/gpu_fixture.h"

namespace nearfield::gpu {
namespace {

constexpr int kDims[] = {64, 128, 192, 1024, 4096, 8192};

class Bf16SumsTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    cudaDeviceProp properties = {};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (properties.major != 9 || properties.minor != 0) {
      GTEST_SKIP() << "compute capability " << properties.major << "." << properties.minor
                   << ": batches are not multiplied on its tensor cores";
    }
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&device_), kBytes), cudaSuccess);
  }
  void TearDown() override { cudaFree(device_); }

  using Element = std::function<float(int vector, int d)>;

  // vectors: [count, dimension], as bf16; none of them denormal.
  static std::vector<uint16_t> Make(int count, int dimension, const Element& element) {
    std::vector<uint16_t> vectors;
    for (int v = 0; v < count; ++v) {
      for (int d = 0; d < dimension; ++d) vectors.push_back(score::Bf16CopyBits(element(v, d)));
    }
    return vectors;
  }

  std::vector<float> Sums(const std::vector<uint16_t>& rows, const std::vector<uint16_t>& queries,
                          int dimension) {
    auto* const rows_at = reinterpret_cast<uint16_t*>(device_);
    uint16_t* const queries_at = rows_at + rows.size();
    auto* const sums_at = reinterpret_cast<float*>(queries_at + queries.size());
    std::vector<float> sums(kSumsRows * kSumsQueries);
    EXPECT_EQ(cudaMemcpy(rows_at, rows.data(), rows.size() * 2, cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(cudaMemcpy(queries_at, queries.data(), queries.size() * 2, cudaMemcpyHostToDevice),
              cudaSuccess);
    EXPECT_EQ(LaunchBf16Sums(rows_at, queries_at, dimension, sums_at), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(sums.data(), sums_at, sums.size() * 4, cudaMemcpyDeviceToHost),
              cudaSuccess);
    return sums;
  }

  // Returns the greatest error there was, as a share of what is allowed.
  double ExpectSums(int dimension, const Element& row, const Element& query) {
    const std::vector<uint16_t> rows = Make(kSumsRows, dimension, row);
    const std::vector<uint16_t> queries = Make(kSumsQueries, dimension, query);
    const std::vector<float> sums = Sums(rows, queries, dimension);
    double worst = 0;
    for (int r = 0; r < kSumsRows; ++r) {
      for (int q = 0; q < kSumsQueries; ++q) {
        double sum = 0;
        double row_squares = 0;
        double query_squares = 0;
        for (int d = 0; d < dimension; ++d) {
          const auto x =
              static_cast<double>(score::FloatFromBfloat16Bits(rows[At(r, d, dimension)]));
          const auto y =
              static_cast<double>(score::FloatFromBfloat16Bits(queries[At(q, d, dimension)]));
          sum += x * y;
          row_squares += x * x;
          query_squares += y * y;
        }
        const double norms = std::sqrt(row_squares) * std::sqrt(query_squares);
        const double allowed =
            score::Bf16TensorError(dimension) * norms + score::kBf16Underflow / 4;
        const auto got = static_cast<double>(sums[static_cast<size_t>(r * kSumsQueries + q)]);
        // fp64 sums err too, by some millionths of what is allowed.
        EXPECT_LE(std::fabs(got - sum), allowed)
            << "row " << r << ", query " << q << ", dimension " << dimension;
        worst = std::max(worst, std::fabs(got - sum) / allowed);
      }
    }
    return worst;
  }

 private:
  static constexpr size_t kBytes = size_t{4} << 20;
  static size_t At(int vector, int d, int dimension) {
    return static_cast<size_t>(vector) * static_cast<size_t>(dimension) + static_cast<size_t>(d);
  }
  char* device_ = nullptr;
};

TEST_F(Bf16SumsTest, SumsOfSmallWholeNumbersAreExact) {
  for (const int dimension : kDims) {
    const auto whole = [&](int, int) { return static_cast<float>(random_.Between(-16, 17)); };
    EXPECT_EQ(ExpectSums(dimension, whole, whole), 0.0);
  }
}

TEST_F(Bf16SumsTest, SumsErrByLessThanIsAssumed) {
  double worst = 0;
  for (const int dimension : kDims) {
    const auto gaussian = [&](int, int) { return random_.Gaussian(); };
    const auto wild = [&](int, int) {
      return std::ldexp(random_.Gaussian(), static_cast<int>(random_.Between(-30, 30)));
    };
    const auto tiny = [&](int, int) { return std::ldexp(random_.Gaussian(), -70); };
    // Each product is lost against the first.
    const auto lost = [&](int v, int d) { return d == v % 3 ? 1.0f : 0x1.6p-13f; };
    // Neighbors cancel, at a distance of `v` places.
    const auto pairs = [&](int v, int d) {
      return (d / (1 << v % 6) % 2 == 0 ? 1.0f : -1.0f) * (1.0f + 0x1p-7f * static_cast<float>(v));
    };
    const auto great_first = [&](int, int d) {
      return d == 0 ? 0x1p12f : d + 1 == dimension ? -0x1p12f : 1.0f + 0x1p-7f;
    };
    const auto ones = [&](int, int d) { return d + 1 == dimension || d == 0 ? 0x1p12f : 1.0f; };
    for (const auto& [row, query] : std::vector<std::pair<Element, Element>>{{gaussian, gaussian},
                                                                             {wild, wild},
                                                                             {wild, gaussian},
                                                                             {tiny, tiny},
                                                                             {lost, lost},
                                                                             {pairs, gaussian},
                                                                             {pairs, pairs},
                                                                             {great_first, ones}}) {
      worst = std::max(worst, ExpectSums(dimension, row, query));
      if (HasFailure()) return;
    }
  }
  std::printf("the greatest error is %.3f of what is assumed\n", worst);
  RecordProperty("worst_share_of_assumption_percent", static_cast<int>(100 * worst));
}

}  // namespace
}  // namespace nearfield::gpu

// Reproducible Gaussian data for benchmarks: the same seed gives the same bytes on any machine and
// thread count.
#ifndef NEARFIELD_TESTS_BENCH_BENCH_DATA_H_
#define NEARFIELD_TESTS_BENCH_BENCH_DATA_H_

#include <cstdint>
#include <vector>

namespace nearfield::bench {

// [rows_count, dim] row-major fp32, independent normal values; row r depends on (seed, r) only.
// Uses all cores.
std::vector<float> GaussianRows(int64_t rows_count, int32_t dim, uint64_t seed);

// What embeddings look like, and what is hard for a scan of codes.
//   kGaussian: independent normal values. kClustered: normal around one of 1,000 centres, so that a
//   query has many near neighbours. kOutliers: eight dimensions thirty times as great as the rest.
enum class DataKind : uint8_t { kGaussian, kClustered, kOutliers };

// As GaussianRows; rows of one seed of a kind have the same centres and dimensions as those of any
// other.
std::vector<float> MakeRows(DataKind kind, int64_t rows_count, int32_t dim, uint64_t seed);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_BENCH_DATA_H_

// Reproducible data for benchmarks: a seed gives the same bytes on any machine and with any number
// of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace nearfield::bench {

// Returns [rows_count, dim] row-major fp32, independent normal values. Row r depends only on (seed,
// r). Uses all cores.
std::vector<float> GaussianRows(int64_t rows_count, int32_t dim, uint64_t seed);

// Kinds of data: some resemble embeddings, some are hard for a scan of codes.
//   kGaussian:  independent normal values.
//   kClustered: normal around one of 1,000 centers, so that a query has many near neighbors.
//   kOutliers:  eight dimensions are thirty times larger than the others.
enum class DataKind : uint8_t { kGaussian, kClustered, kOutliers, kDominant, kHeavyTails };

// Returns rows as GaussianRows does, of the given kind. The centers and the outlier dimensions do
// not depend on the seed.
std::vector<float> MakeRows(DataKind kind, int64_t rows_count, int32_t dim, uint64_t seed);

}  // namespace nearfield::bench

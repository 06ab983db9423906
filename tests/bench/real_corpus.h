// The corpus of real text in the repository (scripts/data), for benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace nearfield::bench {

struct RealCorpus {
  int32_t dim = 0;
  std::vector<float> rows;     // [rows, dim] row-major
  std::vector<float> queries;  // [queries, dim] row-major
};

// Reads packages.fp16.npy and queries.f32.npy from `folder`. Errors: a file is missing or has the
// wrong content.
absl::StatusOr<RealCorpus> ReadRealCorpus(const std::string& folder);

}  // namespace nearfield::bench

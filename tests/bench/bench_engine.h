// Helpers of the search benchmarks: make rows, fill a collection, compare answers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "tests/bench/names.h"

namespace nearfield::bench {

inline constexpr Names<BackendChoice, 3> kBackendNames = {
    {{"auto", BackendChoice::kAuto}, {"cpu", BackendChoice::kCpu}, {"gpu", BackendChoice::kGpu}}};

// Rows of a corpus of any size, made from a few base rows, so that only these take memory. Row i is
// base row i % base_rows with its elements rotated by i / base_rows places. All rows differ while
// that number is below dim.
class RowSource {
 public:
  // `base`: [rows, dim] row-major fp32; stored in `row_type`, rounded to nearest.
  RowSource(absl::Span<const float> base, int32_t dim, RowType row_type);

  int32_t dim() const { return dim_; }
  RowType row_type() const { return row_type_; }
  int64_t row_bytes() const { return int64_t{dim_} * BytesPerElement(row_type_); }
  // Returns rows [begin, begin + count), row-major. They point into `scratch` if they have to be
  // made.
  absl::Span<const uint8_t> Rows(int64_t begin, int64_t count, std::vector<uint8_t>* scratch) const;

 private:
  const int32_t dim_;
  const RowType row_type_;
  std::vector<uint8_t> base_;
  int64_t base_rows_ = 0;
};

// How a collection came about.
struct Layout {
  int32_t generations = 1;    // unequal commits: the i-th has i parts of the rows
  int64_t deleted_every = 0;  // deletes the rows whose id is a multiple of this; 0: none
};

// Creates a collection with the first rows of the source; ids 0 .. rows_count-1. Requires: the
// spec's dim and row type are those of the source.
absl::StatusOr<std::shared_ptr<Collection>> FillCollection(Engine& engine,
                                                           const CollectionSpec& spec,
                                                           const RowSource& source,
                                                           int64_t rows_count,
                                                           const Layout& layout = {});

// Returns true if ids and score bits are equal.
bool SameBits(const Neighbors& a, const Neighbors& b);

}  // namespace nearfield::bench

// The transfers of a CPU round trip: a query that lies in device memory comes down, its results go
// up again.
#ifndef NEARFIELD_TESTS_BENCH_ROUND_TRIP_H_
#define NEARFIELD_TESTS_BENCH_ROUND_TRIP_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"

namespace nearfield::bench {

class RoundTrip {
 public:
  virtual ~RoundTrip() = default;
  // Places a query in device memory, not timed.
  virtual absl::Status PlaceQuery(absl::Span<const float> query) = 0;
  // The placed query, copied down to pinned memory; valid until the next call.
  virtual absl::StatusOr<absl::Span<const float>> QueryDown() = 0;
  // Ids and scores of one answer, copied up; returns when they are there.
  virtual absl::Status ResultsUp(const Neighbors& neighbors) = 0;
};

// Errors: FailedPrecondition without CUDA or a GPU.
absl::StatusOr<std::unique_ptr<RoundTrip>> MakeRoundTrip(int32_t dim, int32_t k_max);

// The first version that this service grew from, kept as a baseline: one thread a row scores, one
// thread a block inserts by bubbling, a serial merge. Rows [rows_count, dim] fp32 are copied to the
// device once.
class BlockBubbleBaseline {
 public:
  virtual ~BlockBubbleBaseline() = default;
  // Dot product over the first `rows_count` rows; ids are row numbers. Query up, search, results
  // down.
  virtual absl::StatusOr<Neighbors> Search(absl::Span<const float> query, int64_t rows_count,
                                           int32_t k) = 0;
};

absl::StatusOr<std::unique_ptr<BlockBubbleBaseline>> MakeBlockBubbleBaseline(
    absl::Span<const float> rows, int32_t dim);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_ROUND_TRIP_H_

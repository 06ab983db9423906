// The transfers of a CPU round trip: a query in device memory is copied to the host, and its
// results are copied back.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"

namespace nearfield::bench {

class RoundTrip {
 public:
  virtual ~RoundTrip() = default;
  // Copies a query into device memory; not part of the measured time.
  virtual absl::Status PlaceQuery(absl::Span<const float> query) = 0;
  // Copies the placed query into pinned memory; the result is valid until the next call.
  virtual absl::StatusOr<absl::Span<const float>> QueryDown() = 0;
  // Copies the ids and scores of one answer to the device; returns when the copy is complete.
  virtual absl::Status ResultsUp(const Neighbors& neighbors) = 0;
};

// Errors: FailedPrecondition without CUDA or a GPU.
absl::StatusOr<std::unique_ptr<RoundTrip>> MakeRoundTrip(int32_t dim, int32_t k_max);

// The first version of this service, kept as a baseline: one thread per row scores, one thread per
// block inserts by bubbling, a serial merge. Rows [rows_count, dim] fp32 are copied to the device
// once.
class BlockBubbleBaseline {
 public:
  virtual ~BlockBubbleBaseline() = default;
  // Returns the best of the first `rows_count` rows by dot product; ids are row numbers. Copies the
  // query to the device, searches, copies the results back.
  virtual absl::StatusOr<Neighbors> Search(absl::Span<const float> query, int64_t rows_count,
                                           int32_t k) = 0;
};

absl::StatusOr<std::unique_ptr<BlockBubbleBaseline>> MakeBlockBubbleBaseline(
    absl::Span<const float> rows, int32_t dim);

}  // namespace nearfield::bench

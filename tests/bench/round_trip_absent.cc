// The round trip in builds without CUDA, which have no device.
#include "tests/bench/round_trip.h"

namespace nearfield::bench {

absl::StatusOr<std::unique_ptr<RoundTrip>> MakeRoundTrip(int32_t /*dim*/, int32_t /*k_max*/) {
  return absl::FailedPreconditionError("built without CUDA");
}

absl::StatusOr<std::unique_ptr<BlockBubbleBaseline>> MakeBlockBubbleBaseline(
    absl::Span<const float> /*rows*/, int32_t /*dim*/) {
  return absl::FailedPreconditionError("built without CUDA");
}

}  // namespace nearfield::bench

#include "server/rpc/await_epoch.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nearfield::server {
namespace {

// Time that is left for the transport of the answer: kWayBackMax plus 1/kRoundingPart of the time,
// but at most 1/kWayBackPart of it. 1/kRoundingPart is for rounding: gRPC may have rounded the
// caller's deadline up by at most one hundredth, and this is twice that.
constexpr int kWayBackPart = 4;
constexpr std::chrono::milliseconds kWayBackMax(100);
constexpr int kRoundingPart = 50;

}  // namespace

TimePoint AnswerBy(const Call& call, TimePoint now) {
  const TimePoint latest =
      now + std::chrono::milliseconds(call.state()->settings().search_ms_max.value());
  return call.deadline().has_value() ? std::min(*call.deadline(), latest) : latest;
}

void AwaitEpoch(Core* core, const Call& call, const std::shared_ptr<NamedCollection>& named,
                uint64_t epoch, std::function<void(absl::Status)> done) {
  const TimePoint now = call.state()->clock().Now();
  const TimePoint latest = AnswerBy(call, now);
  const auto left = latest - now;
  const auto way_back =
      std::min<TimePoint::duration>(left / kWayBackPart, kWayBackMax + left / kRoundingPart);
  core->epoch_waiters.Await({.collection = named->collection,
                             .epoch = epoch,
                             .deadline = latest - way_back,
                             .cancelled = call.cancelled(),
                             .dropped = [named] { return named->dropped.load(); },
                             .done = std::move(done)});
}

}  // namespace nearfield::server

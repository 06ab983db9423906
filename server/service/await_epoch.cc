#include "server/service/await_epoch.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace nearfield::server {
namespace {

// The answer's way back gets this part of the time, and no more than this; and what gRPC may have
// rounded the caller's deadline up by, a hundredth of it at most, as often again.
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

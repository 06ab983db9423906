// AwaitEpoch: waits until a collection has reached the min_epoch of a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nearfield/engine/collection.h"
#include "server/rpc/call.h"

namespace nearfield::server {

// Returns the time by which the call must be answered: its deadline, or the limit search_ms_max.
TimePoint AnswerBy(const Call& call, TimePoint now);

// Calls `done` once with OK or as EpochWait::done, on any thread, also before this returns. Stops
// waiting shortly before the deadline, so that the caller still receives the reason.
void AwaitEpoch(Core* core, const Call& call, const std::shared_ptr<NamedCollection>& named,
                uint64_t epoch, std::function<void(absl::Status)> done);

}  // namespace nearfield::server

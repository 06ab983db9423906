// min_epoch: a call waits until its collection has reached an epoch.
#ifndef NEARFIELD_SERVER_SERVICE_AWAIT_EPOCH_H_
#define NEARFIELD_SERVER_SERVICE_AWAIT_EPOCH_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nearfield/engine/collection.h"
#include "server/service/call.h"

namespace nearfield::server {

// When the call has to be answered: its deadline, or the server's limit on a search.
TimePoint AnswerBy(const Call& call, TimePoint now);

// Calls `done` once, on any thread, also before this returns: OK, or as EpochWait::done. It gives
// up a little before the deadline, so that the caller still hears why.
void AwaitEpoch(Core* core, const Call& call, const std::shared_ptr<NamedCollection>& named,
                uint64_t epoch, std::function<void(absl::Status)> done);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_AWAIT_EPOCH_H_

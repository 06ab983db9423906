// Finds the epoch that a call reads: the current one, or a kept one that it names.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "server/collections/catalog.h"
#include "server/rpc/server_state.h"

namespace nearfield::server {

// The epochs that a request names.
struct WantedEpochs {
  std::optional<uint64_t> min_epoch;
  std::optional<uint64_t> at_epoch;
};

template <typename Request>
WantedEpochs EpochsOf(const Request& request) {
  WantedEpochs wanted;
  if (request.has_min_epoch()) wanted.min_epoch = request.min_epoch();
  if (request.has_at_epoch()) wanted.at_epoch = request.at_epoch();
  return wanted;
}

// Checks that min_epoch is not above the epoch that the call reads. Errors: InvalidArgument.
absl::Status CheckEpochs(const WantedEpochs& wanted);

// As above, for a request with a cursor of `epoch`. Errors: InvalidArgument (also at_epoch with a
// cursor).
absl::Status CheckCursorEpoch(const WantedEpochs& wanted, uint64_t epoch);

// A caller that reads a collection.
struct EpochReader {
  Core& core;
  const std::string& caller;
  const NamedCollection& named;
};

// Returns the collection's state at `epoch`, and renews it if it is kept for the caller. Errors:
// FailedPrecondition (the epoch is neither kept nor current): the message begins with `field`.
absl::StatusOr<std::shared_ptr<const PinnedEpoch>> FindKept(const EpochReader& reader,
                                                            const char* field, uint64_t epoch);

// Returns the state that a call without a cursor reads. Errors: as FindKept.
absl::StatusOr<std::shared_ptr<const PinnedEpoch>> FindWanted(const EpochReader& reader,
                                                              const WantedEpochs& wanted);

}  // namespace nearfield::server

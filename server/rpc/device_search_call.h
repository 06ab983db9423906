// SearchOnDevice: a search by a caller in this process whose queries and answers are in the memory
// of the engine's GPU.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nearfield/engine/device_search.h"
#include "nearfield/engine/engine.h"
#include "server/rpc/call_context.h"
#include "server/rpc/server_state.h"

namespace nearfield::server {

struct DeviceSearchRequest {
  std::string collection;
  std::optional<std::string> filter_text;  // as SearchRequest.filter_text
  DeviceSearch search;                     // its filter, state and `cancelled` are set by the call
};

// Searches on the calling thread, without the queue of searches: the engine runs one pass at a
// time. The call has a log line and is counted like any other, as "SearchOnDevice". It is not
// audited, because its answers are not on the host.
// Errors: those of Engine::SearchOnDevice; NotFound (collection), InvalidArgument (filter_text),
// DeadlineExceeded, Unavailable (the server does not serve, or is not trusted).
absl::StatusOr<DeviceSearchResult> SearchOnDevice(ServerState* state, const CallFacts& facts,
                                                  const DeviceSearchRequest& request);

// Takes device memory for answers. It may outlive the server.
// Errors: those of Engine::TakeDeviceMemory; Unavailable (the server does not serve).
absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(ServerState* state, int64_t bytes);

}  // namespace nearfield::server

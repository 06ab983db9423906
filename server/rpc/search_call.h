// StartSearch: one search, from the request message to the response message. For all search
// methods.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/rpc/call.h"
#include "server/rpc/search_facts.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/pinned_snapshot_cache.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// The destination of the reply. Both pointers are valid at least until `done` is called; `holds`
// until the transport has the reply and the request is released.
struct SearchOutput {
  nearfield::v1::SearchResponse* response = nullptr;
  MemoryHolds* holds = nullptr;
  // State that the pages of one stream share; null for a single search.
  std::shared_ptr<ResultPageCache> page_cache;
  // Receives a hold on the epoch of the pages. If not null, page_rows_max does not apply.
  EpochHold* epoch_hold = nullptr;
};

// Checks and queues `request`, and fills `output`. `done` is called exactly once, on any thread,
// also before this returns. `request` is used only during this call; the caller holds its
// reservation in the ledger.
void StartSearch(Core* core, const Call& call, const nearfield::v1::SearchRequest& request,
                 const SearchOutput& output,
                 std::function<void(absl::Status, const SearchFacts&)> done);

}  // namespace nearfield::server

// One search from message to message: what Search and SearchStream share.
#ifndef NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_
#define NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/batching/kept_epochs.h"
#include "server/batching/memory_ledger.h"
#include "server/batching/search_request.h"
#include "server/service/call.h"
#include "server/service/search_facts.h"

namespace nearfield::server {

// Where the reply goes. Both live at least until `done` is called; `holds` until the transport has
// the reply, and the request is gone.
struct SearchOutput {
  nearfield::v1::SearchResponse* response = nullptr;
  MemoryHolds* holds = nullptr;
  // What the pages of one stream share: null for a search of its own.
  std::shared_ptr<OrderPrefix> prefix;
  // Gets a hold on the epoch of the pages. Where it is given, page_rows_max is no limit.
  EpochHold* epoch_hold = nullptr;
};

// Checks and queues `request`, and fills `output`. `done` is called exactly once, on any thread,
// also before this returns. `request` lives during this call, and is held
// in the ledger by the caller.
void StartSearch(Core* core, const Call& call, const nearfield::v1::SearchRequest& request,
                 const SearchOutput& output,
                 std::function<void(absl::Status, const SearchFacts&)> done);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_

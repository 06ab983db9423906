// One search from message to message: what Search and SearchStream share.
#ifndef NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_
#define NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_

#include <functional>

#include "absl/status/status.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/batching/search_request.h"
#include "server/service/call.h"

namespace nearfield::server {

// What one search adds to the log line of its call.
struct SearchFacts {
  int64_t queries = 0;
  int64_t k = 0;
  int64_t rows = 0;
  int64_t queue_us = 0;
  int64_t device_us = 0;
};

// Checks and queues `request`, and fills `response`. `done` is called exactly once, on any thread,
// also before this returns. `response` lives until then; `request` only during this call.
void StartSearch(Core* core, const Call& call, const nearfield::v1::SearchRequest& request,
                 nearfield::v1::SearchResponse* response,
                 std::function<void(absl::Status, const SearchFacts&)> done);

// Adds the facts of one search to the record of its call.
void Note(const SearchFacts& facts, RequestRecord* record);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_SEARCH_CALL_H_

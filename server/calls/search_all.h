// Retrieval.SearchAll: answers one search page by page.
#ifndef NEARFIELD_SERVER_CALLS_SEARCH_ALL_H_
#define NEARFIELD_SERVER_CALLS_SEARCH_ALL_H_

#include <memory>

#include "nearfield/v1/retrieval.pb.h"
#include "server/calls/call_context.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

ActiveCallPtr StartSearchAll(ServerState* state,
                             ReplyStream<nearfield::v1::SearchResponse>* context,
                             const nearfield::v1::SearchAllRequest& request);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CALLS_SEARCH_ALL_H_

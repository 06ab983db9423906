// Retrieval.SearchAll: answers one search page by page.
#pragma once

#include <memory>

#include "nearfield/v1/retrieval.pb.h"
#include "server/calls/call_context.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

ActiveCallPtr StartSearchAll(ServerState* state,
                             ReplyStream<nearfield::v1::SearchResponse>* context,
                             const nearfield::v1::SearchAllRequest& request);

}  // namespace nearfield::server

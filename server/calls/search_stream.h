// Retrieval.SearchStream: many searches over one stream, answered in order.
#pragma once

#include <memory>

#include "nearfield/v1/retrieval.pb.h"
#include "server/calls/call_context.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

using SearchMessages = MessageStream<nearfield::v1::SearchRequest, nearfield::v1::SearchResponse>;

ActiveCallPtr StartSearchStream(ServerState* state, SearchMessages* context);

}  // namespace nearfield::server

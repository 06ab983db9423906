// Retrieval.SearchStream: many searches over one stream, answered in order.
#ifndef NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_
#define NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "server/service/server_state.h"

namespace nearfield::server {

// Reads serialized SearchRequests and writes serialized SearchResponses.
using SearchStreamReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

SearchStreamReactor* StartSearchStream(ServerState* state, grpc::CallbackServerContext* context);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_

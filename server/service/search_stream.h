// Retrieval.SearchStream: many searches over one stream, answered in the order they came.
#ifndef NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_
#define NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "nearfield/v1/retrieval.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

grpc::ServerBidiReactor<nearfield::v1::SearchRequest, nearfield::v1::SearchResponse>*
StartSearchStream(ServerState* state, grpc::CallbackServerContext* context);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_SEARCH_STREAM_H_

// Retrieval.SearchAll: answers one search page by page.
#ifndef NEARFIELD_SERVER_SERVICE_SEARCH_ALL_H_
#define NEARFIELD_SERVER_SERVICE_SEARCH_ALL_H_

#include <grpcpp/grpcpp.h>

#include "nearfield/v1/retrieval.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

grpc::ServerWriteReactor<nearfield::v1::SearchResponse>* StartSearchAll(
    ServerState* state, grpc::CallbackServerContext* context,
    const nearfield::v1::SearchAllRequest& request);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_SEARCH_ALL_H_

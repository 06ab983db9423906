// RetrievalService: the service Retrieval. Contract: proto/nearfield/v1/retrieval.proto.
#ifndef NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_

#include <memory>

#include "nearfield/v1/retrieval.grpc.pb.h"
#include "server/service/decoding_service.h"
#include "server/service/search_stream.h"
#include "server/service/server_state.h"

namespace nearfield::server {

class RetrievalService final : public DecodingService<nearfield::v1::Retrieval::Service> {
 public:
  // `state` outlives the service.
  explicit RetrievalService(ServerState* state);

 private:
  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   std::shared_ptr<const nearfield::v1::SearchRequest> request,
                                   nearfield::v1::SearchResponse* response);
  SearchStreamReactor* SearchStream(grpc::CallbackServerContext* context);
  grpc::ServerWriteReactor<nearfield::v1::SearchResponse>* SearchAll(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::SearchAllRequest> request);
  grpc::ServerUnaryReactor* Fetch(grpc::CallbackServerContext* context,
                                  std::shared_ptr<const nearfield::v1::FetchRequest> request,
                                  nearfield::v1::FetchResponse* response);
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context,
                                  std::shared_ptr<const nearfield::v1::CountRequest> request,
                                  nearfield::v1::CountResponse* response);
  grpc::ServerUnaryReactor* GetLimits(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::GetLimitsRequest> request,
      nearfield::v1::GetLimitsResponse* response);
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_

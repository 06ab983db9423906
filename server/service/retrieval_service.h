// The Retrieval service; contract: proto/nearfield/v1/retrieval.proto.
#ifndef NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_

#include "nearfield/v1/retrieval.grpc.pb.h"
#include "server/service/search_stream.h"
#include "server/service/server_state.h"

namespace nearfield::server {

// Every method with the callback API, as Retrieval::CallbackService, but SearchStream with messages
// that it decodes itself.
using RetrievalMethods = nearfield::v1::Retrieval::WithCallbackMethod_Search<
    nearfield::v1::Retrieval::WithRawCallbackMethod_SearchStream<
        nearfield::v1::Retrieval::WithCallbackMethod_SearchAll<
            nearfield::v1::Retrieval::WithCallbackMethod_Fetch<
                nearfield::v1::Retrieval::WithCallbackMethod_Count<
                    nearfield::v1::Retrieval::WithCallbackMethod_GetLimits<
                        nearfield::v1::Retrieval::Service>>>>>>;

class RetrievalService final : public RetrievalMethods {
 public:
  // `state` outlives the service.
  explicit RetrievalService(ServerState* state) : state_(state) {}

  grpc::ServerUnaryReactor* Search(grpc::CallbackServerContext* context,
                                   const nearfield::v1::SearchRequest* request,
                                   nearfield::v1::SearchResponse* response) override;
  SearchStreamReactor* SearchStream(grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<nearfield::v1::SearchResponse>* SearchAll(
      grpc::CallbackServerContext* context,
      const nearfield::v1::SearchAllRequest* request) override;
  grpc::ServerUnaryReactor* Fetch(grpc::CallbackServerContext* context,
                                  const nearfield::v1::FetchRequest* request,
                                  nearfield::v1::FetchResponse* response) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context,
                                  const nearfield::v1::CountRequest* request,
                                  nearfield::v1::CountResponse* response) override;
  grpc::ServerUnaryReactor* GetLimits(grpc::CallbackServerContext* context,
                                      const nearfield::v1::GetLimitsRequest* request,
                                      nearfield::v1::GetLimitsResponse* response) override;

 private:
  ServerState* const state_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_RETRIEVAL_SERVICE_H_

// The Ingest service; contract: proto/nearfield/v1/ingest.proto.
#ifndef NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_

#include "nearfield/v1/ingest.grpc.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

class IngestService final : public nearfield::v1::Ingest::CallbackService {
 public:
  // `state` outlives the service.
  explicit IngestService(ServerState* state) : state_(state) {}

  grpc::ServerBidiReactor<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>* Upload(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const nearfield::v1::DeleteRequest* request,
                                   nearfield::v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* GetUpload(grpc::CallbackServerContext* context,
                                      const nearfield::v1::GetUploadRequest* request,
                                      nearfield::v1::GetUploadResponse* response) override;
  grpc::ServerUnaryReactor* DropUpload(grpc::CallbackServerContext* context,
                                       const nearfield::v1::DropUploadRequest* request,
                                       nearfield::v1::DropUploadResponse* response) override;

  grpc::ServerUnaryReactor* ListUploads(grpc::CallbackServerContext* context,
                                        const nearfield::v1::ListUploadsRequest* request,
                                        nearfield::v1::ListUploadsResponse* response) override;

 private:
  ServerState* const state_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_

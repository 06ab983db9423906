// IngestService: the service Ingest. Contract: proto/nearfield/v1/ingest.proto.
#ifndef NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_
#define NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_

#include <memory>

#include "nearfield/v1/ingest.grpc.pb.h"
#include "server/service/decoding_service.h"
#include "server/service/server_state.h"
#include "server/service/upload_stream.h"

namespace nearfield::server {

class IngestService final : public DecodingService<nearfield::v1::Ingest::Service> {
 public:
  // `state` outlives the service.
  explicit IngestService(ServerState* state);

 private:
  UploadReactor* Upload(grpc::CallbackServerContext* context);
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   std::shared_ptr<const nearfield::v1::DeleteRequest> request,
                                   nearfield::v1::DeleteResponse* response);
  grpc::ServerUnaryReactor* GetUpload(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::GetUploadRequest> request,
      nearfield::v1::GetUploadResponse* response);
  grpc::ServerUnaryReactor* DropUpload(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::DropUploadRequest> request,
      nearfield::v1::DropUploadResponse* response);

  grpc::ServerUnaryReactor* ListUploads(
      grpc::CallbackServerContext* context,
      std::shared_ptr<const nearfield::v1::ListUploadsRequest> request,
      nearfield::v1::ListUploadsResponse* response);
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_INGEST_SERVICE_H_

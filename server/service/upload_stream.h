// Ingest.Upload: carries an UploadSession over a stream.
#ifndef NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_
#define NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "nearfield/v1/ingest.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

grpc::ServerBidiReactor<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>*
StartUploadStream(ServerState* state, grpc::CallbackServerContext* context);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_

// Ingest.Upload: runs an UploadSession over a stream.
#ifndef NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_
#define NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "nearfield/v1/ingest.pb.h"
#include "server/service/server_state.h"

namespace nearfield::server {

// Messages are read as bytes, and are decoded after their memory is reserved.
using UploadReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, nearfield::v1::UploadResponse>;

UploadReactor* StartUploadStream(ServerState* state, grpc::CallbackServerContext* context);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_SERVICE_UPLOAD_STREAM_H_

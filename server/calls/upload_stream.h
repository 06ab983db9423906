// Ingest.Upload: runs an UploadSession over a stream.
#ifndef NEARFIELD_SERVER_CALLS_UPLOAD_STREAM_H_
#define NEARFIELD_SERVER_CALLS_UPLOAD_STREAM_H_

#include <memory>

#include "nearfield/v1/ingest.pb.h"
#include "server/calls/call_context.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

using UploadMessages = MessageStream<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>;

ActiveCallPtr StartUploadStream(ServerState* state, UploadMessages* context);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CALLS_UPLOAD_STREAM_H_

// Ingest.Upload: runs an UploadSession over a stream.
#pragma once

#include <memory>

#include "nearfield/v1/ingest.pb.h"
#include "server/calls/call_context.h"
#include "server/calls/server_state.h"

namespace nearfield::server {

using UploadMessages = MessageStream<nearfield::v1::UploadRequest, nearfield::v1::UploadResponse>;

ActiveCallPtr StartUploadStream(ServerState* state, UploadMessages* context);

}  // namespace nearfield::server

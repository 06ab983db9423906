// The calls with streams: Retrieval.SearchStream, SearchAll and Scan, and Ingest.Upload.
#pragma once

#include <memory>

#include "server/rpc/nearfield_service.h"
#include "server/rpc/server_state.h"

namespace nearfield::server {

// Retrieval.SearchStream: many searches over one stream, answered in order.
ActiveCallPtr StartSearchStream(ServerState* state, SearchMessages* context);

// Retrieval.SearchAll: one page after the other, until no row follows.
ActiveCallPtr StartSearchAll(ServerState* state, SearchReplies* context,
                             const pb::SearchAllRequest& request);

// Retrieval.Scan: every row of one epoch, in the order of the ids.
ActiveCallPtr StartScan(ServerState* state, ScanReplies* context,
                        std::shared_ptr<const pb::ScanRequest> request);

// Ingest.Upload: runs an UploadSession over a stream.
ActiveCallPtr StartUploadStream(ServerState* state, UploadMessages* context);

}  // namespace nearfield::server

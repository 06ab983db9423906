// IngestServiceTest: uploads over a real channel.
#pragma once

#include <cstdint>
#include <thread>
#include <vector>

#include "tests/server/server_fixture.h"

namespace nearfield::server {

class IngestServiceTest : public ServerFixture {
 protected:
  void ServeEmpty() {
    Serve();
    ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
  }
  // Sends all requests, half-closes, and reads all responses.
  grpc::Status Send(const std::vector<pb::UploadRequest>& requests,
                    std::vector<pb::UploadResponse>* responses = nullptr,
                    grpc::ClientContext* context = nullptr) {
    grpc::ClientContext own;
    const auto stream = ingest_->Upload(context == nullptr ? &own : context);
    for (const pb::UploadRequest& request : requests) {
      if (!stream->Write(request)) break;
    }
    stream->WritesDone();
    for (pb::UploadResponse response; stream->Read(&response);) {
      if (responses != nullptr) responses->push_back(response);
    }
    return stream->Finish();
  }
  uint64_t RowsCount() {
    pb::CountRequest request;
    request.set_collection("c");
    pb::CountResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(retrieval_->Count(&context, request, &response), HasCode(grpc::StatusCode::OK));
    return response.rows_count();
  }
  // Waits until the last upload has released its memory.
  void AwaitNoUpload() {
    while (script_->uploads_open > 0) std::this_thread::yield();
  }
};

}  // namespace nearfield::server

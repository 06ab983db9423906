// The fake server's Ingest service.
#ifndef NEARFIELD_TESTS_CLIENT_FAKE_INGEST_H_
#define NEARFIELD_TESTS_CLIENT_FAKE_INGEST_H_

#include <string>
#include <vector>

#include "nearfield/v1/ingest.grpc.pb.h"
#include "tests/client/fake_state.h"

namespace nearfield::client {

class FakeIngest final : public v1::Ingest::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>;

  explicit FakeIngest(FakeState& state) : state_(state) {}

  grpc::Status Delete(grpc::ServerContext* context, const v1::DeleteRequest* request,
                      v1::DeleteResponse* response) override {
    return Handle(state_, "Delete", context,
                  [&] { return state_.store.Delete(*request, response); });
  }

  grpc::Status Upload(grpc::ServerContext* context, Stream* stream) override;

 private:
  // Reads blocks up to the commit.
  grpc::Status Receive(grpc::ServerContext* context, Stream* stream, std::vector<FakeRow>* rows,
                       bool* committed);
  grpc::Status Commit(const std::string& name, std::vector<FakeRow> rows, Stream* stream);

  FakeState& state_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_FAKE_INGEST_H_

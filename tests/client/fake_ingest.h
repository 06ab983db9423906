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
    return Handle(
        state_, "Delete", context, [&] { return state_.store.Delete(*request, response); },
        request);
  }

  grpc::Status GetUpload(grpc::ServerContext* context, const v1::GetUploadRequest* request,
                         v1::GetUploadResponse* response) override {
    return Handle(state_, "GetUpload", context, [&] {
      const auto found = state_.uploads.find(request->upload_token());
      if (found == state_.uploads.end()) return absl::NotFoundError("no upload with this token");
      const FakeUpload& upload = found->second;
      response->set_committed(upload.committed.has_value());
      response->set_next_block(upload.blocks_count);
      response->set_rows_count(upload.committed ? upload.committed->rows_count()
                                                : upload.rows.size());
      response->set_epoch(upload.committed ? upload.committed->epoch() : 0);
      return absl::OkStatus();
    });
  }

  grpc::Status DropUpload(grpc::ServerContext* context, const v1::DropUploadRequest* request,
                          v1::DropUploadResponse* response) override {
    return Handle(state_, "DropUpload", context, [&] {
      const auto found = state_.uploads.find(request->upload_token());
      if (found == state_.uploads.end()) return absl::NotFoundError("no upload with this token");
      if (found->second.committed) return absl::FailedPreconditionError("committed");
      response->set_rows_count(found->second.rows.size());
      state_.uploads.erase(found);
      return absl::OkStatus();
    });
  }

  grpc::Status ListUploads(grpc::ServerContext* context, const v1::ListUploadsRequest* request,
                           v1::ListUploadsResponse* response) override {
    return Handle(state_, "ListUploads", context, [&] {
      for (const auto& [token, rows_count] : state_.script.open_uploads) {
        response->set_uploads_count(response->uploads_count() + 1);
        if (request->has_uploads_max() &&
            response->uploads_count() > uint64_t{request->uploads_max()}) {
          continue;
        }
        v1::OpenUpload& open = *response->add_uploads();
        open.set_upload_token(token);
        open.set_collection("docs");
        open.set_mode(v1::UPLOAD_MODE_UPSERT);
        open.set_rows_count(rows_count);
        open.set_bytes_on_disk(12345678);
        open.set_untouched_s(3661);
        open.set_is_live(token == "live");
      }
      return absl::OkStatus();
    });
  }

  grpc::Status Upload(grpc::ServerContext* context, Stream* stream) override;

 private:
  // Reads blocks until the commit.
  grpc::Status Receive(grpc::ServerContext* context, Stream* stream, FakeUpload* upload,
                       bool* committed);
  grpc::Status Commit(const v1::UploadBegin& begin, FakeUpload upload, Stream* stream);

  FakeState& state_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_FAKE_INGEST_H_

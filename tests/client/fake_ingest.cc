#include "tests/client/fake_ingest.h"

#include <utility>

namespace nearfield::client {

grpc::Status FakeIngest::Upload(grpc::ServerContext* context, Stream* stream) {
  v1::UploadRequest request;
  if (!stream->Read(&request)) return grpc::Status::OK;
  const std::string name = request.begin().collection();
  {
    const grpc::Status refused =
        Handle(state_, "Upload", context, [&] { return state_.store.Find(name).status(); });
    if (!refused.ok()) return refused;
    std::unique_lock<std::mutex> lock(state_.mutex);
    state_.changed.wait(lock, [&] { return state_.stopping || state_.script.accept_uploads; });
  }
  v1::UploadResponse accepted;
  accepted.mutable_accepted()->set_rows_max(request.begin().rows_max());
  stream->Write(accepted);
  {
    std::unique_lock<std::mutex> lock(state_.mutex);
    state_.changed.wait(lock, [&] { return state_.stopping || !state_.script.hold_uploads; });
  }
  std::vector<FakeRow> rows;
  bool committed = false;
  const grpc::Status received = Receive(context, stream, &rows, &committed);
  if (committed) return Commit(name, std::move(rows), stream);
  const std::lock_guard<std::mutex> lock(state_.mutex);
  ++state_.uploads_abandoned;
  state_.changed.notify_all();
  return received;
}

grpc::Status FakeIngest::Receive(grpc::ServerContext* context, Stream* stream,
                                 std::vector<FakeRow>* rows, bool* committed) {
  v1::UploadRequest request;
  uint64_t bytes = 0;
  while (stream->Read(&request)) {
    if (request.has_commit()) {
      *committed = request.commit().rows_count() == rows->size();
      return *committed ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                       "commit.rows_count: not what was sent");
    }
    for (FakeRow& row : RowsOf(request.block())) rows->push_back(std::move(row));
    bytes += request.block().ByteSizeLong();
    {
      const std::lock_guard<std::mutex> lock(state_.mutex);
      state_.block_bytes.push_back(request.block().ByteSizeLong());
      const FakeServerScript& script = state_.script;
      if (script.upload_rows_until_refusal && rows->size() > *script.upload_rows_until_refusal) {
        return FakeState::Apply(script.upload_refusal, context);
      }
    }
    v1::UploadResponse progress;
    progress.mutable_progress()->set_rows_received(rows->size());
    progress.mutable_progress()->set_bytes_received(bytes);
    stream->Write(progress);
  }
  return grpc::Status::CANCELLED;
}

grpc::Status FakeIngest::Commit(const std::string& name, std::vector<FakeRow> rows,
                                Stream* stream) {
  v1::UploadResponse response;
  bool silent = false;
  bool breaks = false;
  {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    const auto collection = state_.store.Find(name);
    if (!collection.ok()) return ToGrpc(collection.status());
    v1::CollectionInfo& info = (*collection)->info;
    info.set_epoch(info.epoch() + 1);
    response.mutable_committed()->set_epoch(info.epoch());
    response.mutable_committed()->set_rows_count(rows.size());
    for (FakeRow& row : rows) (*collection)->rows.push_back(std::move(row));
    silent = state_.script.commit_in_silence;
    breaks = state_.script.break_after_commit;
  }
  if (!silent) stream->Write(response);
  return breaks ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken") : grpc::Status::OK;
}

}  // namespace nearfield::client

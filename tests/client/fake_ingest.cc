#include "tests/client/fake_ingest.h"

#include <utility>

namespace nearfield::client {

grpc::Status FakeIngest::Upload(grpc::ServerContext* context, Stream* stream) {
  v1::UploadRequest request;
  if (!stream->Read(&request)) return grpc::Status::OK;
  const v1::UploadBegin begin = request.begin();
  FakeUpload upload;
  {
    const grpc::Status refused = Handle(
        state_, "Upload", context, [&] { return state_.store.Find(begin.collection()).status(); },
        &begin);
    if (!refused.ok()) return refused;
    std::unique_lock<std::mutex> lock(state_.mutex);
    state_.changed.wait(lock, [&] { return state_.stopping || state_.script.accept_uploads; });
    state_.changed.wait_for(lock, state_.script.accept_after, [&] { return state_.stopping; });
    if (begin.has_upload_token()) upload = state_.uploads[begin.upload_token()];
  }
  v1::UploadResponse first;
  if (upload.committed) {
    *first.mutable_committed() = *upload.committed;
    stream->Write(first);
    return grpc::Status::OK;
  }
  first.mutable_accepted()->set_rows_max(begin.rows_max());
  first.mutable_accepted()->set_next_block(upload.blocks_count);
  first.mutable_accepted()->set_rows_received(upload.rows.size());
  stream->Write(first);
  {
    std::unique_lock<std::mutex> lock(state_.mutex);
    state_.changed.wait(lock, [&] { return state_.stopping || !state_.script.hold_uploads; });
  }
  bool committed = false;
  const grpc::Status received = Receive(context, stream, &upload, &committed);
  if (committed) return Commit(begin, std::move(upload), stream);
  const std::lock_guard<std::mutex> lock(state_.mutex);
  if (begin.has_upload_token()) state_.uploads[begin.upload_token()] = std::move(upload);
  ++state_.uploads_abandoned;
  state_.changed.notify_all();
  return received;
}

grpc::Status FakeIngest::Receive(grpc::ServerContext* context, Stream* stream, FakeUpload* upload,
                                 bool* committed) {
  v1::UploadRequest request;
  uint64_t bytes = 0;
  const uint64_t rows_before = upload->rows.size();
  std::optional<uint64_t> break_after;
  {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    std::vector<uint64_t>& breaks = state_.script.upload_rows_until_break;
    if (!breaks.empty()) {
      break_after = breaks.front();
      breaks.erase(breaks.begin());
    }
  }
  while (stream->Read(&request)) {
    if (request.has_commit()) {
      *committed = request.commit().rows_count() == upload->rows.size();
      return *committed ? grpc::Status::OK
                        : grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                       "commit.rows_count: not what was sent");
    }
    if (request.block().has_block_number() &&
        request.block().block_number() != upload->blocks_count) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "block.block_number: not the next"};
    }
    for (FakeRow& row : RowsOf(request.block())) upload->rows.push_back(std::move(row));
    ++upload->blocks_count;
    bytes += request.block().ByteSizeLong();
    {
      const std::lock_guard<std::mutex> lock(state_.mutex);
      state_.block_bytes.push_back(request.block().ByteSizeLong());
      state_.blocks.push_back(request.block());
      const FakeServerScript& script = state_.script;
      if (script.upload_rows_until_refusal &&
          upload->rows.size() > *script.upload_rows_until_refusal) {
        return FakeState::Apply(script.upload_refusal, context);
      }
    }
    if (break_after && upload->rows.size() - rows_before >= *break_after) {
      return {grpc::StatusCode::UNAVAILABLE, "broken"};
    }
    v1::UploadResponse progress;
    progress.mutable_progress()->set_rows_received(upload->rows.size());
    progress.mutable_progress()->set_bytes_received(bytes);
    stream->Write(progress);
  }
  return grpc::Status::CANCELLED;
}

grpc::Status FakeIngest::Commit(const v1::UploadBegin& begin, FakeUpload upload, Stream* stream) {
  v1::UploadResponse response;
  bool silent = false;
  bool breaks = false;
  {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    const auto collection = state_.store.Find(begin.collection());
    if (!collection.ok()) return ToGrpc(collection.status());
    v1::CollectionInfo& info = (*collection)->info;
    info.set_epoch(info.epoch() + 1);
    v1::UploadCommitted& committed = *response.mutable_committed();
    committed.set_epoch(info.epoch());
    committed.set_rows_count(upload.rows.size());
    if (begin.mode() == v1::UPLOAD_MODE_REPLACE) {
      committed.set_rows_replaced((*collection)->rows.size());
      (*collection)->rows.clear();
    }
    for (FakeRow& row : upload.rows) (*collection)->rows.push_back(std::move(row));
    if (begin.has_upload_token()) state_.uploads[begin.upload_token()].committed = committed;
    silent = state_.script.commit_in_silence;
    breaks = state_.script.break_after_commit;
  }
  if (!silent) stream->Write(response);
  return breaks ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken") : grpc::Status::OK;
}

}  // namespace nearfield::client

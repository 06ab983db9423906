#include "server/service/upload_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

absl::Status OutOfOrder(const char* got, const char* wanted) {
  return absl::InvalidArgumentError(absl::StrCat("message: ", got, " where ", wanted,
                                                 " must come: the order is begin, blocks, commit"));
}

}  // namespace

absl::StatusOr<pb::UploadResponse> UploadSession::Handle(
    const pb::UploadRequest& request, const std::function<absl::Status()>& dead) {
  if (committed_) return absl::InvalidArgumentError("message: nothing may come after commit");
  const bool open = upload_ != nullptr;
  switch (request.message_case()) {
    case pb::UploadRequest::kBegin:
      if (open) return OutOfOrder("a second begin", "a block or commit");
      return Begin(request.begin());
    case pb::UploadRequest::kBlock:
      if (!open) return OutOfOrder("a block", "begin");
      return Block(request.block());
    case pb::UploadRequest::kCommit:
      if (!open) return OutOfOrder("commit", "begin");
      return Commit(request.commit(), dead);
    default:
      return absl::InvalidArgumentError("message: none of begin, block and commit is set");
  }
}

absl::StatusOr<pb::UploadResponse> UploadSession::Begin(const pb::UploadBegin& begin) {
  collection_name_ = begin.collection();
  ABSL_ASSIGN_OR_RETURN(totals_.declared, FromProto(begin));
  ABSL_ASSIGN_OR_RETURN(named_, catalog_->Find(begin.collection()));
  ABSL_ASSIGN_OR_RETURN(upload_, named_->collection->BeginUpload(totals_.declared));
  pb::UploadResponse response;
  response.mutable_accepted()->set_rows_max(begin.rows_max());
  return response;
}

absl::StatusOr<pb::UploadResponse> UploadSession::Block(const pb::UploadBlock& block) {
  ABSL_ASSIGN_OR_RETURN(const BlockRows rows,
                        FromProto(block, named_->collection->spec(), *limits_, &totals_));
  UploadBlock native;
  native.ids = &rows.ids;
  native.rows = rows.rows;
  native.payloads = rows.payloads.size() > 0 ? &rows.payloads : nullptr;
  ABSL_RETURN_IF_ERROR(upload_->Append(native));
  pb::UploadResponse response;
  response.mutable_progress()->set_rows_received(static_cast<uint64_t>(totals_.rows));
  response.mutable_progress()->set_bytes_received(static_cast<uint64_t>(totals_.bytes));
  return response;
}

absl::StatusOr<pb::UploadResponse> UploadSession::Commit(
    const pb::UploadCommit& commit, const std::function<absl::Status()>& dead) {
  ABSL_RETURN_IF_ERROR(CheckCommit(commit, totals_));
  if (named_->dropped.load()) {
    return absl::AbortedError(
        absl::StrCat("the collection \"", named_->name, "\" was dropped during the upload"));
  }
  ABSL_RETURN_IF_ERROR(dead());
  ABSL_ASSIGN_OR_RETURN(const CommitResult result, upload_->Commit());
  upload_ = nullptr;
  committed_ = true;
  pb::UploadResponse response;
  response.mutable_committed()->set_epoch(result.epoch);
  response.mutable_committed()->set_rows_count(static_cast<uint64_t>(result.rows_count));
  return response;
}

}  // namespace nearfield::server

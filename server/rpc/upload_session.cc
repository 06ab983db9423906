#include "server/rpc/upload_session.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/attributes.h"
#include "server/rpc/find_collection.h"

namespace nearfield::server {
namespace {

// The stream of a client that was killed may still be writing a block when the client comes again.
constexpr std::chrono::seconds kEarlierStream{5};

absl::Status OutOfOrder(const char* got, const char* wanted) {
  return ArgumentError(
      "message",
      absl::StrCat(got, " where ", wanted, " must come: the order is begin, blocks, commit"), got,
      wanted);
}

pb::UploadResponse Committed(const NamedCollection& named, const CommitResult& result) {
  pb::UploadResponse response;
  response.mutable_committed()->set_incarnation(named.incarnation);
  response.mutable_committed()->set_epoch(result.epoch);
  response.mutable_committed()->set_rows_count(static_cast<uint64_t>(result.rows_count));
  response.mutable_committed()->set_rows_replaced(static_cast<uint64_t>(result.rows_replaced));
  return response;
}

absl::Status CheckNumber(const pb::UploadBlock& block, int64_t next_block) {
  if (!block.has_block_number() || block.block_number() == static_cast<uint64_t>(next_block)) {
    return absl::OkStatus();
  }
  return ArgumentError("block.block_number",
                       absl::StrCat(block.block_number(), ", the next block is ", next_block),
                       absl::StrCat(block.block_number()), absl::StrCat(next_block));
}

}  // namespace

absl::StatusOr<pb::UploadResponse> UploadSession::Handle(
    const pb::UploadRequest& request, const std::function<absl::Status()>& dead) {
  if (committed_) return ArgumentError("message", "nothing may come after commit");
  const bool open = upload_ != nullptr;
  switch (request.message_case()) {
    case pb::UploadRequest::kBegin:
      if (open) return OutOfOrder("a second begin", "a block or commit");
      return Begin(request.begin(), dead);
    case pb::UploadRequest::kBlock:
      if (!open) return OutOfOrder("a block", "begin");
      return Block(request.block());
    case pb::UploadRequest::kCommit:
      if (!open) return OutOfOrder("commit", "begin");
      return Commit(request.commit(), dead);
    default: return ArgumentError("message", "none of begin, block and commit is set", "absent");
  }
}

absl::StatusOr<pb::UploadResponse> UploadSession::Begin(const pb::UploadBegin& begin,
                                                        const std::function<absl::Status()>& dead) {
  collection_name_ = begin.collection();
  ABSL_ASSIGN_OR_RETURN(totals_.declared, FromProto(begin));
  ABSL_ASSIGN_OR_RETURN(named_, FindCollection(*catalog_, key_, begin.collection()));
  if (begin.has_upload_token() && named_->store != nullptr) {
    const store::UploadKey key = {.collection_id = named_->store_id, .token = begin.upload_token()};
    named_->store->AwaitWriterEnd(key, kEarlierStream);
    const auto known = named_->store->GetUpload(key);
    if (known.ok() && known->state == store::UploadState::kCommitted) {
      ABSL_RETURN_IF_ERROR(CheckTokenMode(totals_.declared.mode, *known));
      committed_ = true;
      return Committed(*named_, {.epoch = known->epoch,
                                 .rows_count = known->rows_count,
                                 .rows_replaced = known->rows_replaced});
    }
  }
  ABSL_ASSIGN_OR_RETURN(upload_, CollectionUpload::Begin(named_, {.reservation = totals_.declared,
                                                                  .token = begin.upload_token(),
                                                                  .caller = caller_,
                                                                  .check_caller = dead}));
  const UploadPlace& place = upload_->place();
  totals_.rows = place.rows_count;
  totals_.payload_bytes = place.payload_bytes;
  pb::UploadResponse response;
  response.mutable_accepted()->set_rows_max(begin.rows_max());
  response.mutable_accepted()->set_next_block(static_cast<uint64_t>(place.next_block));
  response.mutable_accepted()->set_rows_received(static_cast<uint64_t>(place.rows_count));
  return response;
}

absl::StatusOr<pb::UploadResponse> UploadSession::Block(const pb::UploadBlock& block) {
  ABSL_RETURN_IF_ERROR(CheckNumber(block, upload_->place().next_block));
  ABSL_ASSIGN_OR_RETURN(const BlockRows rows,
                        FromProto(block, named_->collection->spec(), *limits_, &totals_));
  ABSL_ASSIGN_OR_RETURN(
      const AttributeBlock attributes,
      FromProto(block.attributes(), upload_->schema(), rows.ids.size(), AttributeLimits()));
  UploadBlock native;
  native.ids = &rows.ids;
  native.rows = rows.rows;
  native.payloads = rows.payloads.size() > 0 ? &rows.payloads : nullptr;
  // The engine checks the values but does not know their field, so it is added here.
  ABSL_RETURN_IF_ERROR(
      WithArgument(upload_->Append(native, attributes), {.field = "block.vectors.data"}));
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
  return Committed(*named_, result);
}

}  // namespace nearfield::server

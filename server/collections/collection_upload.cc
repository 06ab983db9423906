#include "server/collections/collection_upload.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/attributes/row_encoding.h"

namespace nearfield::server {
namespace {

// A resumable upload loses at most this many bytes when the process ends.
constexpr int64_t kCheckpointBytes = int64_t{256} << 20;

int64_t BytesOf(const UploadBlock& block) {
  return static_cast<int64_t>(block.rows.size()) + block.ids->bytes() +
         (block.payloads == nullptr ? 0 : block.payloads->value_bytes());
}

}  // namespace

absl::Status CheckTokenMode(UploadMode mode, const store::UploadInfo& known) {
  if (known.mode == mode) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "begin.upload_token: the upload of this token was begun with another mode");
}

CollectionUpload::CollectionUpload(NamedCollectionPtr named, const BeginUploadRequest& request)
    : named_(std::move(named)),
      resumable_(!request.token.empty()),
      attributes_(named_->attributes.get()) {}

CollectionUpload::~CollectionUpload() {
  // A client that reconnects finds the blocks that it sent, except a failed one.
  if (segment_ != nullptr && resumable_ && !failed_) segment_->Checkpoint().IgnoreError();
  if (!counted_) return;
  const MutexLock lock(named_->uploads_mutex);
  --named_->uploads_open;
}

absl::Status CollectionUpload::Count() {
  const MutexLock lock(named_->uploads_mutex);
  if (named_->dropped.load()) {
    return absl::NotFoundError(
        absl::StrCat("begin.collection: the collection \"", named_->name, "\" was dropped"));
  }
  ++named_->uploads_open;
  counted_ = true;
  return absl::OkStatus();
}

absl::Status CollectionUpload::ReserveQuotas(const BeginUploadRequest& request) {
  if (named_->owner.empty() || named_->quotas == nullptr) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(const HeldBytes bytes,
                        named_->collection->UploadBytes(request.reservation));
  QuotaAmounts amounts;
  amounts[Quota::kDeviceBytes] = bytes.device;
  amounts[Quota::kHostBytes] = bytes.host + bytes.host_rows;
  if (named_->store != nullptr) {
    disk_bytes_ = DiskBytesOf(request.reservation);
    // The durable blocks of an upload that is resumed count already.
    const auto known = named_->store->GetUpload(KeyOf(request));
    const int64_t durable = known.ok() ? known->bytes_durable : 0;
    amounts[Quota::kDiskBytes] = std::max<int64_t>(0, disk_bytes_ - durable);
  }
  ABSL_ASSIGN_OR_RETURN(quota_, named_->quotas->Reserve(named_->owner, amounts));
  return absl::OkStatus();
}

int64_t CollectionUpload::DiskBytesOf(const UploadReservation& reservation) const {
  return store::UploadBytes(named_->collection->spec(), reservation.rows_max,
                            reservation.payload_bytes_max);
}

absl::StatusOr<std::unique_ptr<CollectionUpload>> CollectionUpload::Begin(
    NamedCollectionPtr named, const BeginUploadRequest& request) {
  std::unique_ptr<CollectionUpload> upload(new CollectionUpload(std::move(named), request));
  const NamedCollection& to = *upload->named_;
  if (upload->resumable_ && to.store == nullptr) {
    return absl::FailedPreconditionError(
        "begin.upload_token: this server keeps nothing on a disk (data_dir is none), so that no "
        "upload can be resumed");
  }
  ABSL_RETURN_IF_ERROR(upload->Count());
  ABSL_RETURN_IF_ERROR(upload->ReserveQuotas(request));
  ABSL_ASSIGN_OR_RETURN(upload->upload_, to.collection->BeginUpload(request.reservation));
  if (to.store != nullptr) ABSL_RETURN_IF_ERROR(upload->OpenSegment(request));
  ABSL_RETURN_IF_ERROR(upload->quota_.RaiseTo(Quota::kDiskBytes, upload->disk_bytes_));
  return upload;
}

absl::Status CollectionUpload::OpenSegment(const BeginUploadRequest& request) {
  const UploadMode mode = request.reservation.mode;
  if (resumable_) {
    const auto known = named_->store->GetUpload(KeyOf(request));
    if (known.ok()) {
      ABSL_RETURN_IF_ERROR(CheckTokenMode(mode, *known));
      if (known->rows_count > request.reservation.rows_max) {
        return ArgumentError(
            "begin.rows_max",
            absl::StrCat(request.reservation.rows_max, ", but the upload of this token has ",
                         known->rows_count, " rows already"),
            absl::StrCat(request.reservation.rows_max), absl::StrCat(known->rows_count));
      }
      return Resume(request);
    }
    if (!absl::IsNotFound(known.status())) return known.status();
  }
  store::BeginUploadOptions options = {
      .mode = mode, .token = request.token, .caller = request.caller};
  options.bytes_expected = DiskBytesOf(request.reservation);
  ABSL_ASSIGN_OR_RETURN(segment_, named_->store->BeginUpload(named_->store_id, options));
  return absl::OkStatus();
}

absl::Status CollectionUpload::Resume(const BeginUploadRequest& request) {
  const auto play_again = [&](const store::StoredBlock& block) -> absl::Status {
    if (request.check_caller) ABSL_RETURN_IF_ERROR(request.check_caller());
    // The store does not count the blocks of an upload that has a stream.
    ABSL_RETURN_IF_ERROR(quota_.RaiseTo(Quota::kDiskBytes, disk_bytes_));
    const UploadBlock rows = {.ids = block.ids, .rows = block.rows, .payloads = block.payloads};
    place_.rows_count += block.ids->size();
    if (block.payloads != nullptr) place_.payload_bytes += block.payloads->value_bytes();
    ABSL_RETURN_IF_ERROR(attributes_.AppendStored(block.ids->size(), block.attributes));
    ABSL_RETURN_IF_ERROR(quota_.RaiseTo(Quota::kAttributeBytes, attributes_.bytes()));
    return upload_->Append(rows);
  };
  ABSL_ASSIGN_OR_RETURN(segment_,
                        named_->store->ResumeUpload(KeyOf(request), play_again, request.caller));
  place_.next_block = segment_->next_block();
  return absl::OkStatus();
}

absl::Status CollectionUpload::TakeBlock(const UploadBlock& block,
                                         const AttributeBlock& attributes) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(upload_->Append(block));
    ABSL_RETURN_IF_ERROR(attributes_.Append(attributes));
    return quota_.RaiseTo(Quota::kAttributeBytes, attributes_.bytes());
  });
}

absl::Status CollectionUpload::WriteBlock(const UploadBlock& block, const BytesColumn* attributes) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(segment_->Append({.number = segment_->next_block(),
                                           .ids = block.ids,
                                           .rows = block.rows,
                                           .payloads = block.payloads,
                                           .attributes = attributes}));
    bytes_since_checkpoint_ += BytesOf(block);
    return absl::OkStatus();
  });
}

absl::Status CollectionUpload::Append(const UploadBlock& block, const AttributeBlock& attributes) {
  if (segment_ != nullptr) {  // the client and the disk count the same blocks and rows
    CHECK_EQ(segment_->next_block(), place_.next_block);
    CHECK_EQ(segment_->rows_count(), place_.rows_count);
  }
  failed_ = true;  // until the block is complete
  BytesColumn encoded;
  if (schema().size() > 0) {
    ABSL_ASSIGN_OR_RETURN(
        encoded, CatchOutOfMemory([&] { return EncodeRowAttributes(schema(), attributes, {}); }));
  }
  absl::Status taken;
  absl::Status written;
  const auto take = [&] { taken = TakeBlock(block, attributes); };
  if (segment_ == nullptr) {
    take();
  } else {
    const BytesColumn* const values = schema().size() > 0 ? &encoded : nullptr;
    named_->segment_writes->RunBeside([&] { written = WriteBlock(block, values); }, take);
  }
  ABSL_RETURN_IF_ERROR(taken);
  ABSL_RETURN_IF_ERROR(written);
  if (resumable_ && bytes_since_checkpoint_ >= kCheckpointBytes) {
    ABSL_RETURN_IF_ERROR(segment_->Checkpoint());
    bytes_since_checkpoint_ = 0;
  }
  failed_ = false;
  place_.rows_count += block.ids->size();
  if (block.payloads != nullptr) place_.payload_bytes += block.payloads->value_bytes();
  ++place_.next_block;
  return absl::OkStatus();
}

absl::Status CollectionUpload::Record(const PendingChange& change) {
  if (segment_ == nullptr) return absl::OkStatus();
  const std::vector<int64_t> superseded(change.rows_superseded.begin(),
                                        change.rows_superseded.end());
  return named_->store->CommitUpload(
      segment_.get(),
      {.epoch = change.epoch, .replaced_ids = change.ids_removed, .superseded_rows = superseded});
}

absl::StatusOr<CommitResult> CollectionUpload::Commit() {
  // Build the indexes before the commit, so that other commits need not wait.
  if (place_.rows_count > 0) {
    named_->attributes->ReleaseOrdinals(*named_->collection);
    ABSL_ASSIGN_OR_RETURN(const uint32_t first, upload_->TakeOrdinals());
    ABSL_RETURN_IF_ERROR(attributes_.Add(first));
  }
  // When the server starts, it moves complete segments that were not committed into the folder
  // lost/. So this one becomes complete only after everything that takes long or may fail.
  if (segment_ != nullptr) ABSL_RETURN_IF_ERROR(segment_->Sync());
  std::optional<uint64_t> recorded;  // the epoch
  ABSL_ASSIGN_OR_RETURN(const CommitResult result,
                        upload_->Commit([&](const PendingChange& change) {
                          recorded = change.epoch;
                          return Record(change);
                        }));
  CHECK_EQ(result.epoch, recorded.value_or(result.epoch));
  quota_.Release();  // the rows count with the collection now
  attributes_.Finalize(true);
  // The upload changed nothing. Record that under its token.
  if (segment_ != nullptr && !recorded.has_value() && resumable_) {
    ABSL_RETURN_IF_ERROR(named_->store->CommitUpload(
        segment_.get(), {.epoch = result.epoch, .without_effect = true}));
  }
  segment_ = nullptr;
  named_->changed();
  return result;
}

}  // namespace nearfield::server

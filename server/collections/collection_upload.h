// CollectionUpload: one upload into a named collection. The engine and the store share one commit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "server/collections/catalog.h"
#include "server/store/store.h"

namespace nearfield::server {

struct BeginUploadRequest {
  UploadReservation reservation;
  std::string token;   // empty: the upload ends with its stream
  std::string caller;  // owner of the upload; empty: none in particular
  // Returns an error if no caller waits any more. Polled while the blocks of a resumed upload are
  // read. May be empty.
  std::function<absl::Status()> check_caller;
};

// Position of an upload's next block. Only a resumed upload does not begin with zeros.
struct UploadPlace {
  int64_t next_block = 0;
  int64_t rows_count = 0;
  int64_t payload_bytes = 0;
};

// Checks that the upload with this token has this mode. Errors: FailedPrecondition.
absl::Status CheckTokenMode(UploadMode mode, const store::UploadInfo& known);

// One upload. If it is destroyed before its commit, it is removed, except for its durable blocks if
// it has a token. Not thread-safe.
class CollectionUpload {
 public:
  // Reserves memory and disk space for the whole upload. With the token of an open upload, resumes
  // it.
  // Errors: those of the engine, the store and `request.check_caller`; FailedPrecondition (a token
  // although nothing is stored; the token belongs to another collection or mode, or is in use);
  // InvalidArgument (the token has more rows than the reservation).
  static absl::StatusOr<std::unique_ptr<CollectionUpload>> Begin(NamedCollectionPtr named,
                                                                 const BeginUploadRequest& request);
  ~CollectionUpload();

  // Returns the attributes that the collection declared when the upload began.
  const AttributeSchema& schema() const { return attributes_.schema(); }
  // Returns the position after the blocks so far.
  const UploadPlace& place() const { return place_; }

  // Appends a block. Requires: at least one row; `attributes` has as many rows, and the columns of
  // schema().
  // Errors: those of the engine and the store. After an error the upload can only be destroyed.
  absl::Status Append(const UploadBlock& block, const AttributeBlock& attributes);

  // Makes the upload durable, then visible. Errors: as Upload::Commit; Aborted (the collection was
  // dropped).
  absl::StatusOr<CommitResult> Commit();

 private:
  CollectionUpload(NamedCollectionPtr named, const BeginUploadRequest& request);
  // Counts this upload among those of the collection. Errors: NotFound (it was dropped meanwhile).
  absl::Status Count();
  // Reserves the memory and the disk of the upload in the quotas of the collection's owner. Errors:
  // ResourceExhausted, InvalidArgument (a limit out of range).
  absl::Status ReserveQuotas(const BeginUploadRequest& request);
  // Returns the maximum disk space of the upload.
  int64_t DiskBytesOf(const UploadReservation& reservation) const;
  store::UploadKey KeyOf(const BeginUploadRequest& request) const {
    return {.collection_id = named_->store_id, .token = request.token};
  }
  absl::Status OpenSegment(const BeginUploadRequest& request);
  absl::Status Resume(const BeginUploadRequest& request);
  // The two halves of Append, on a thread each: the block in memory, and the block in the segment.
  absl::Status TakeBlock(const UploadBlock& block, const AttributeBlock& attributes);
  absl::Status WriteBlock(const UploadBlock& block, const BytesColumn* attributes);
  // Makes the commit durable.
  absl::Status Record(const PendingChange& change);

  const NamedCollectionPtr named_;
  const bool resumable_;
  // Null: nothing is stored. Destroyed last: when it ends, another stream may resume the upload,
  // and finds its memory and quotas free.
  std::unique_ptr<store::SegmentWriter> segment_;
  PrincipalQuotas::Hold quota_;  // released after upload_
  int64_t disk_bytes_ = 0;       // that count for the owner
  std::unique_ptr<Upload> upload_;
  AttributeUpload attributes_;
  UploadPlace place_;
  int64_t bytes_since_checkpoint_ = 0;
  bool failed_ = false;
  bool counted_ = false;
};

}  // namespace nearfield::server

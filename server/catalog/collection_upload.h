// One upload into a named collection: to the engine and to the store, one commit for both.
#ifndef NEARFIELD_SERVER_CATALOG_COLLECTION_UPLOAD_H_
#define NEARFIELD_SERVER_CATALOG_COLLECTION_UPLOAD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "server/catalog/catalog.h"
#include "server/store/store.h"

namespace nearfield::server {

struct UploadRequestFacts {
  UploadReservation reservation;
  std::string token;   // empty: the upload ends with its stream
  std::string caller;  // whose upload it is; empty: no caller's in particular
  // Whether nobody waits any more: asked while the blocks of a resumed upload are read. May be
  // empty.
  std::function<absl::Status()> dead;
};

// Where the next block of an upload belongs; behind nothing but for one that is resumed.
struct UploadPlace {
  int64_t next_block = 0;
  int64_t rows_count = 0;
  int64_t payload_bytes = 0;
};

// Whether an upload that is known by its token is one into this collection, in this mode. Errors:
// FailedPrecondition.
absl::Status CheckTokenIsOf(const NamedCollection& named, UploadMode mode,
                            const store::UploadFacts& known);

// Not thread-safe. Destroyed before its commit it leaves nothing behind, or, with a token, its
// durable blocks.
class CollectionUpload {
 public:
  // Reserves memory and room on the disk for all of it. With the token of an open upload it goes on
  // with that one. Errors: the engine's and the store's; FailedPrecondition (a token where nothing
  // is kept; the token of another collection or mode, or in use); InvalidArgument (the token has
  // more rows than the reservation); those of `dead`.
  static absl::StatusOr<std::unique_ptr<CollectionUpload>> Begin(
      std::shared_ptr<NamedCollection> named, const UploadRequestFacts& facts);
  ~CollectionUpload();

  // Of the blocks so far.
  const UploadPlace& place() const { return place_; }

  // Of one row or more; `attributes` has as many, and the columns of the collection's schema.
  // Errors: the engine's and the store's. After one the upload can only be destroyed.
  absl::Status Append(const UploadBlock& block, const AttributeBlock& attributes);

  // Durable, then visible. Errors: as Upload::Commit; Aborted (the collection was dropped).
  absl::StatusOr<CommitResult> Commit();

 private:
  CollectionUpload(std::shared_ptr<NamedCollection> named, const UploadRequestFacts& facts);
  absl::Status OpenSegment(const UploadRequestFacts& facts);
  absl::Status Resume(const UploadRequestFacts& facts);
  // What makes the commit durable.
  absl::Status Record(const PendingChange& change);

  const std::shared_ptr<NamedCollection> named_;
  const bool resumable_;
  std::unique_ptr<Upload> upload_;
  AttributeUpload attributes_;
  std::unique_ptr<store::SegmentWriter> segment_;  // null: nothing is kept
  UploadPlace place_;
  int64_t bytes_since_checkpoint_ = 0;
  bool failed_ = false;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_COLLECTION_UPLOAD_H_

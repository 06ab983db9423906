// UploadSession: one upload as a sequence of messages: Begin, then Blocks, then Commit. Independent
// of the stream.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/v1/ingest.pb.h"
#include "server/collections/catalog.h"
#include "server/collections/collection_upload.h"
#include "server/convert/ingest.h"
#include "server/convert/limits.h"
#include "server/security/access_control.h"

namespace nearfield::server {

// Not thread-safe. If it is destroyed before a commit, the upload is dropped.
class UploadSession {
 public:
  // `catalog` and `limits` outlive the session. `caller`: the owner of the upload. `key`: that of
  // the call.
  UploadSession(const Catalog* catalog, const RequestLimits* limits, std::string caller,
                KeyPtr key = nullptr)
      : catalog_(catalog), limits_(limits), caller_(std::move(caller)), key_(std::move(key)) {}

  // Handles one message of the client and returns the response. May block in the engine.
  // `dead`: called immediately before the commit, and while the blocks of a resumed upload are read
  // again. If it is not OK, nothing is committed.
  // Errors: all errors that ingest.proto lists; the session can only be destroyed then.
  absl::StatusOr<nearfield::v1::UploadResponse> Handle(const nearfield::v1::UploadRequest& request,
                                                       const std::function<absl::Status()>& dead);

  bool committed() const { return committed_; }
  const std::string& collection() const { return collection_name_; }
  const UploadTotals& totals() const { return totals_; }

 private:
  absl::StatusOr<nearfield::v1::UploadResponse> Begin(const nearfield::v1::UploadBegin& begin,
                                                      const std::function<absl::Status()>& dead);
  absl::StatusOr<nearfield::v1::UploadResponse> Block(const nearfield::v1::UploadBlock& block);
  absl::StatusOr<nearfield::v1::UploadResponse> Commit(const nearfield::v1::UploadCommit& commit,
                                                       const std::function<absl::Status()>& dead);

  const Catalog* const catalog_;
  const RequestLimits* const limits_;
  const std::string caller_;
  const KeyPtr key_;
  std::string collection_name_;
  std::shared_ptr<NamedCollection> named_;
  std::unique_ptr<CollectionUpload> upload_;  // set between Begin and Commit
  UploadTotals totals_;
  bool committed_ = false;
};

}  // namespace nearfield::server

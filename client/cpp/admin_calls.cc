// Aliases, snapshots and compaction.
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/formats/status_macros.h"

namespace nearfield::client {

absl::StatusOr<AliasAnswer> Client::SetAlias(std::string_view alias, std::string_view collection,
                                             const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("alias", alias));
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  v1::SetAliasRequest request;
  request.set_alias(std::string(alias));
  request.set_collection(std::string(collection));
  v1::SetAliasResponse response;
  // Not repeated: another caller may have moved the alias since.
  NF_RETURN_IF_ERROR(core_->Call(core_->admin(), &v1::Admin::Stub::SetAlias, request, &response,
                                 {.deadline = options.deadline, .idempotent = false}));
  AliasAnswer answer;
  NF_ASSIGN_OR_RETURN(answer.collection, FromProto(response.mutable_collection()));
  answer.collection_before = std::move(*response.mutable_collection_before());
  return answer;
}

absl::StatusOr<std::string> Client::DropAlias(std::string_view alias, const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("alias", alias));
  v1::DropAliasRequest request;
  request.set_alias(std::string(alias));
  v1::DropAliasResponse response;
  NF_RETURN_IF_ERROR(core_->Call(core_->admin(), &v1::Admin::Stub::DropAlias, request, &response,
                                 {.deadline = options.deadline, .idempotent = false}));
  return std::move(*response.mutable_collection());
}

absl::StatusOr<SnapshotInfo> Client::CreateSnapshot(std::string_view name,
                                                    const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::CreateSnapshotRequest request;
  request.set_name(std::string(name));
  v1::CreateSnapshotResponse response;
  NF_RETURN_IF_ERROR(core_->Call(core_->admin(), &v1::Admin::Stub::CreateSnapshot, request,
                                 &response, {.deadline = options.deadline, .idempotent = false}));
  return FromProto(response.mutable_snapshot());
}

absl::StatusOr<std::vector<SnapshotInfo>> Client::ListSnapshots(const CallOptions& options) {
  v1::ListSnapshotsResponse response;
  NF_RETURN_IF_ERROR(core_->Call(core_->admin(), &v1::Admin::Stub::ListSnapshots,
                                 v1::ListSnapshotsRequest(), &response,
                                 {.deadline = options.deadline}));
  std::vector<SnapshotInfo> snapshots;
  for (v1::SnapshotInfo& proto : *response.mutable_snapshots()) {
    snapshots.push_back(FromProto(&proto));
  }
  return snapshots;
}

absl::StatusOr<CompactAnswer> Client::Compact(std::string_view collection,
                                              const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  v1::CompactRequest request;
  request.set_collection(std::string(collection));
  v1::CompactResponse response;
  NF_RETURN_IF_ERROR(core_->Call(core_->admin(), &v1::Admin::Stub::Compact, request, &response,
                                 {.deadline = options.deadline}));
  return FromProto(response);
}

}  // namespace nearfield::client

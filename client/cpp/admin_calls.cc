// Attributes, aliases, snapshots and compaction.
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"

namespace nearfield::client {

absl::StatusOr<AttributeAnswer> Client::AddAttribute(std::string_view collection,
                                                     const AttributeSpec& attribute,
                                                     const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  v1::AddAttributeRequest request;
  request.set_collection(std::string(collection));
  NF_RETURN_IF_ERROR(ToProto(attribute, request.mutable_attribute()));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::AddAttribute, request, Once(options)));
  return AttributeAnswer{.epoch = response.epoch(), .incarnation = response.incarnation()};
}

absl::StatusOr<AttributeAnswer> Client::DropAttribute(std::string_view collection,
                                                      std::string_view attribute,
                                                      const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  NF_RETURN_IF_ERROR(CheckText("attribute", attribute));
  v1::DropAttributeRequest request;
  request.set_collection(std::string(collection));
  request.set_attribute(std::string(attribute));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::DropAttribute, request, Once(options)));
  return AttributeAnswer{.epoch = response.epoch(), .incarnation = response.incarnation()};
}

absl::StatusOr<AliasAnswer> Client::SetAlias(std::string_view alias, std::string_view collection,
                                             const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("alias", alias));
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  v1::SetAliasRequest request;
  request.set_alias(std::string(alias));
  request.set_collection(std::string(collection));
  // Not repeated: another caller may have moved the alias since.
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::SetAlias, request, Once(options)));
  AliasAnswer answer;
  NF_ASSIGN_OR_RETURN(answer.collection, FromProto(response.mutable_collection()));
  answer.collection_before = std::move(*response.mutable_collection_before());
  return answer;
}

absl::StatusOr<std::string> Client::DropAlias(std::string_view alias, const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("alias", alias));
  v1::DropAliasRequest request;
  request.set_alias(std::string(alias));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::DropAlias, request, Once(options)));
  return std::move(*response.mutable_collection());
}

absl::StatusOr<SnapshotInfo> Client::CreateSnapshot(std::string_view name,
                                                    const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::CreateSnapshotRequest request;
  request.set_name(std::string(name));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::CreateSnapshot, request, Once(options)));
  return FromProto(response.mutable_snapshot());
}

absl::StatusOr<SnapshotInfo> Client::DeleteSnapshot(std::string_view name,
                                                    const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::DeleteSnapshotRequest request;
  request.set_name(std::string(name));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::DeleteSnapshot, request, Once(options)));
  return FromProto(response.mutable_snapshot());
}

absl::StatusOr<std::vector<SnapshotInfo>> Client::ListSnapshots(const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::ListSnapshots, {}, Retried(options)));
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
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::Compact, request, Retried(options)));
  return FromProto(response);
}

}  // namespace nearfield::client

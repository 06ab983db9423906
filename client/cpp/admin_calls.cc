// Attributes, aliases, snapshots, compaction and counters.
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"

namespace nearfield::client {
namespace {

Counters FromProto(const v1::GetCountersResponse& proto) {
  Counters counters;
  counters.started_unix_ms = proto.started_unix_ms();
  for (const v1::CallCounter& calls : proto.calls()) {
    counters.calls.push_back({.method = calls.method(),
                              .status = calls.status(),
                              .calls_count = calls.calls_count(),
                              .rows_count = calls.rows_count(),
                              .total_us = calls.total_us()});
  }
  const v1::PassCounters& passes = proto.passes();
  counters.passes = {.passes_count = passes.passes_count(),
                     .queries_rows_count = passes.queries_rows_count(),
                     .queries_int8_count = passes.queries_int8_count(),
                     .device_us = passes.device_us(),
                     .candidates = passes.candidates(),
                     .bytes_read = passes.bytes_read(),
                     .escalations = {.tighter = passes.escalations().tighter(),
                                     .canonical = passes.escalations().canonical()}};
  const v1::AuditCounters& audit = proto.audit();
  counters.audit = {.answers_audited_count = audit.answers_audited_count(),
                    .answers_dropped_count = audit.answers_dropped_count(),
                    .answers_failed_count = audit.answers_failed_count(),
                    .mismatches_count = audit.mismatches_count(),
                    .rows_checked_count = audit.rows_checked_count()};
  const v1::ConnectionCounters& connections = proto.connections();
  counters.connections = {.open_count = connections.open_count(),
                          .accepted_count = connections.accepted_count(),
                          .refused_count = connections.refused_count(),
                          .pauses_count = connections.pauses_count()};
  counters.log_lines_dropped_count = proto.log_lines_dropped_count();
  return counters;
}

}  // namespace

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

absl::StatusOr<Counters> Client::GetCounters(const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::GetCounters, {}, Retried(options)));
  return FromProto(response);
}

}  // namespace nearfield::client

// Conversion between proto and native types for the Admin service.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/admin.pb.h"
#include "server/audit/audited_answer.h"
#include "server/audit/auditor.h"
#include "server/collections/compactor.h"
#include "server/collections/snapshots.h"
#include "server/convert/common.h"
#include "server/convert/limits.h"
#include "server/listener/accept_counts.h"
#include "server/scheduler/pass_counter.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// Errors: InvalidArgument. The catalog checks the name.
absl::StatusOr<CollectionSpec> FromProto(const pb::CreateCollectionRequest& request);

void ToProto(const std::string& name, const CollectionSpec& spec, const CollectionStats& stats,
             pb::CollectionInfo* info);

void ToProto(const EngineInfo& info, const Capacity& capacity, pb::GetCapacityResponse* response);

void ToProto(const PassCounts& counts, pb::PassCounters* counters);
void ToProto(const AuditCounts& counts, pb::AuditCounters* counters);
void ToProto(const AcceptCounts& counts, pb::ConnectionCounters* counters);

void ToProto(const SnapshotInfo& snapshot, pb::SnapshotInfo* info);
void ToProto(const GivenBack& given, pb::CompactResponse* response);

// Input of Verify: one query and, optionally, the answer that the client claims.
struct VerifyTask {
  SearchRequest search;  // exactly one query
  std::optional<uint64_t> epoch;
  std::optional<Neighbors> claim;
  SentFilter filter;
  std::string terms;  // as in AuditedAnswer
};
absl::StatusOr<VerifyTask> FromProto(const pb::VerifyRequest& request,
                                     std::shared_ptr<const Collection> collection,
                                     const RequestLimits& limits);
void ToProto(const CollectionSpec& spec, const VerifyResult& result, int64_t oracle_us,
             pb::VerifyResponse* response);

}  // namespace nearfield::server

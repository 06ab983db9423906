// Conversion between proto messages and plain values. Total: a malformed reply becomes an error,
// never a crash.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/common.pb.h"
#include "nearfield/v1/retrieval.pb.h"

namespace nearfield::client {

v1::DataType ToProto(DataType dtype);
v1::Metric ToProto(Metric metric);
v1::IdType ToProto(IdType type);
v1::ScanChoice ToProto(ScanChoice scan);
v1::RowHome ToProto(RowPlacement rows);
void ToProto(const Id& id, v1::Id* proto);
// Converts ids [begin, end).
void ToProto(const IdColumn& ids, size_t begin, size_t end, v1::IdList* proto);
void ToProto(const Query& query, v1::Query* proto);
void ToProto(const Neighbors& neighbors, v1::QueryResult* proto);  // ids and scores only
// Errors: InvalidArgument (the filter or a term cannot be sent).
absl::Status ToProto(std::string_view collection, std::span<const Query> queries,
                     const SearchOptions& options, v1::SearchRequest* request);

Limits FromProto(const v1::GetLimitsResponse& proto);
Capacity FromProto(const v1::GetCapacityResponse& proto);
CompactAnswer FromProto(const v1::CompactResponse& proto);

// These move data out of the message. Errors: Internal (its columns differ in length).
absl::StatusOr<IdColumn> TakeIds(v1::IdList* proto);
absl::StatusOr<CollectionInfo> FromProto(v1::CollectionInfo* proto);
SnapshotInfo FromProto(v1::SnapshotInfo* proto);
absl::StatusOr<SearchAnswer> FromProto(v1::SearchResponse* proto);
// Checks that there is one result for each query: a caller that trusts the number would read out of
// bounds. Errors: Internal.
absl::Status CheckResults(const SearchAnswer& answer, size_t queries_count);
absl::StatusOr<FetchAnswer> FromProto(v1::FetchResponse* proto);
absl::StatusOr<ScanPage> FromProto(v1::ScanResponse* proto);
absl::StatusOr<VerifyAnswer> FromProto(v1::VerifyResponse* proto);

}  // namespace nearfield::client

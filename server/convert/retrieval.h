// Conversion between proto and native types for the Retrieval service.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/convert/common.h"
#include "server/convert/limits.h"
#include "server/scheduler/search_request.h"

namespace nearfield::server {

// Returns the checked k; 10, or k_max if it is smaller, if absent. Errors: InvalidArgument.
absl::StatusOr<int32_t> KFromProto(bool present, uint32_t k, const RequestLimits& limits);

// Checks the query against `spec` and appends it to `request`. `field` is its path: "queries[3]".
// Its vector is appended to request->values. Call SetVectorSpans after all queries are appended.
absl::Status AppendQuery(const std::string& field, const pb::Query& query,
                         const CollectionSpec& spec, SearchRequest* request);
void SetVectorSpans(const CollectionSpec& spec, SearchRequest* request);

// Returns the requested minimum score, if any. Errors: InvalidArgument (not a number).
absl::StatusOr<std::optional<float>> ScoreThreshold(bool present, float score);

// Returns kInteractive if unspecified. Errors: InvalidArgument (not a priority).
absl::StatusOr<SearchPriority> PriorityFromProto(pb::SearchPriority priority);

absl::StatusOr<SearchRequest> FromProto(const pb::SearchRequest& request,
                                        std::shared_ptr<const Collection> collection,
                                        const RequestLimits& limits);

// Returns the minimum bytes of the reply to `request` while the collection has `rows_count` rows.
int64_t ReplyBytesMin(const SearchRequest& request, int64_t rows_count);
// Returns the bytes to reserve for that reply: its maximum, but at most response_bytes_max. Text
// ids and payloads are estimated as twice the collection's mean, attributes by their types.
int64_t ReplyBytesExpected(const SearchRequest& request, const RequestLimits& limits);
// Returns ResourceExhausted with `advice` if a reply of `bytes` exceeds the limit.
absl::Status CheckReplyBytes(int64_t bytes, const RequestLimits& limits, const std::string& advice);
// Appends `advice` to the engine's refusal of a too large answer; returns any other status
// unchanged.
absl::Status WithAdvice(const absl::Status& status, const std::string& advice);
extern const char kSearchAdvice[];
extern const char kFetchAdvice[];
extern const char kScanAdvice[];

// Returns the minimum time to read `bytes`, rounded up; 0 if the rate is 0 (not known).
uint64_t ReadNsMin(int64_t bytes, double bytes_per_second);

// Returns true if the answer to `request` is to be packed: SearchRequest.packed.
bool IsPacked(const pb::SearchRequest& request, const CollectionSpec& spec);

// Moves the answer into the message. The caller sets `total_us` and `read_ns_min` of the cost.
void ToProto(const CollectionSpec& spec, RowParts parts, SearchReply reply,
             pb::SearchResponse* response);
// As above, for an answer that IsPacked.
void ToPackedProto(SearchReply reply, pb::SearchResponse* response);
void NeighborsToProto(const CollectionSpec& spec, RowParts parts, const Neighbors& neighbors,
                      pb::QueryResult* result);
absl::StatusOr<Neighbors> NeighborsFromProto(const std::string& field,
                                             const pb::QueryResult& result, IdType type,
                                             const RequestLimits& limits);

RowParts PartsFromProto(const pb::FetchRequest& request, const RequestLimits& limits);
RowParts PartsFromProto(const pb::ScanRequest& request, const RequestLimits& limits);
// `asked`: the ids of the request. Ids that were not found are listed as missing.
void ToProto(const CollectionSpec& spec, RowParts parts, const IdColumn& asked,
             const FetchResult& found, pb::FetchResponse* response);
// Appends rows to the reply of a scan, except the epoch's rows_count and the cursor.
void ToProto(const CollectionSpec& spec, RowParts parts, const FetchResult& found,
             pb::ScanResponse* response);
// Returns the minimum bytes of the reply with these rows.
int64_t ReplyBytesMin(const FetchResult& found);
// Returns the maximum bytes of the reply to a fetch of `ids`. `attribute_bytes`: the maximum of one
// row's attributes.
int64_t ReplyBytesMax(const CollectionSpec& spec, RowParts parts, const IdColumn& ids,
                      int64_t attribute_bytes, const RequestLimits& limits);

}  // namespace nearfield::server

// Proto <-> native for the Retrieval service.
#ifndef NEARFIELD_SERVER_CONVERT_RETRIEVAL_H_
#define NEARFIELD_SERVER_CONVERT_RETRIEVAL_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/engine.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/batching/search_request.h"
#include "server/convert/common.h"
#include "server/convert/limits.h"

namespace nearfield::server {

// The neighbors asked for, checked: 10 where absent. Errors: InvalidArgument.
absl::StatusOr<int32_t> KFromProto(bool present, uint32_t k, const RequestLimits& limits);

// Appends the query, checked against `spec`, to `request`; `field` is its path: "queries[3]". The
// vector lies in request->values; SetVectorSpans makes the spans once all queries are there.
absl::Status AppendQuery(const std::string& field, const pb::Query& query,
                         const CollectionSpec& spec, SearchRequest* request);
void SetVectorSpans(const CollectionSpec& spec, SearchRequest* request);

// The least score of an answer, where one is asked for. Errors: InvalidArgument (not a number).
absl::StatusOr<std::optional<float>> ScoreMin(bool present, float score);

// kInteractive where absent. Errors: InvalidArgument (not a priority).
absl::StatusOr<SearchPriority> PriorityFromProto(const pb::SearchRequest& request);

absl::StatusOr<SearchRequest> FromProto(const pb::SearchRequest& request,
                                        std::shared_ptr<const Collection> collection,
                                        const RequestLimits& limits);

// Least bytes of the reply to `request` while the collection has `rows_count` rows.
int64_t ReplyBytesMin(const SearchRequest& request, int64_t rows_count);
// Bytes to reserve for that reply: its most, at most a full reply; text ids and payloads count as
// twice the mean of the collection's.
int64_t ReplyBytesExpected(const SearchRequest& request, const RequestLimits& limits);
// ResourceExhausted with advice where a reply of `bytes` passes the limit.
absl::Status CheckReplyBytes(int64_t bytes, const RequestLimits& limits, const std::string& advice);
// What the engine refused for its size, with advice; any other status as it is.
absl::Status WithAdvice(const absl::Status& status, const std::string& advice);
extern const char kSearchAdvice[];
extern const char kFetchAdvice[];

// The least time to read `bytes`, rounded up; 0 where the rate is not known (0).
uint64_t ReadNsMin(int64_t bytes, double bytes_per_second);

// Moves the answer into the message. Of the cost, `total_us` and `read_ns_min` are left to the
// caller.
void ToProto(const CollectionSpec& spec, RowParts parts, SearchReply reply,
             pb::SearchResponse* response);
void NeighborsToProto(const CollectionSpec& spec, RowParts parts, const Neighbors& neighbors,
                      pb::QueryResult* result);
absl::StatusOr<Neighbors> NeighborsFromProto(const std::string& field,
                                             const pb::QueryResult& result, IdType type,
                                             const RequestLimits& limits);

RowParts PartsFromProto(const pb::FetchRequest& request, const RequestLimits& limits);
// `asked`: the ids of the request; those not found are listed as missing.
void ToProto(const CollectionSpec& spec, RowParts parts, const IdColumn& asked,
             const FetchResult& found, pb::FetchResponse* response);
// Least bytes of that reply.
int64_t ReplyBytesMin(const FetchResult& found);
// Most bytes of the reply to a fetch of `ids`.
int64_t ReplyBytesMax(const CollectionSpec& spec, RowParts parts, const IdColumn& ids,
                      const RequestLimits& limits);

void ToProto(const RequestLimits& limits, pb::GetLimitsResponse* response);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONVERT_RETRIEVAL_H_

#include "server/convert/retrieval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/row_codec.h"
#include "server/convert/enum_table.h"
#include "server/convert/terms.h"
#include "server/scheduler/retry_hint.h"

namespace nearfield::server {
namespace {

constexpr uint32_t kDefaultK = 10;
constexpr std::pair<pb::SearchPriority, SearchPriority> kPriorityValues[] = {
    {pb::SEARCH_PRIORITY_INTERACTIVE, SearchPriority::kInteractive},
    {pb::SEARCH_PRIORITY_UNSPECIFIED, SearchPriority::kInteractive},
    {pb::SEARCH_PRIORITY_BATCH, SearchPriority::kBatch}};

// Checks that the values are finite, and not all zero if the metric divides by the norm.
absl::Status CheckValues(const std::string& field, absl::Span<const float> values, Metric metric) {
  if (const auto first = FirstNotFinite(values)) {
    return ArgumentError(
        field,
        absl::StrCat("value ", *first, " is ", values[*first], ", every value must be finite"),
        absl::StrCat(values[*first]), "finite");
  }
  if (metric == Metric::kCosine && absl::c_all_of(values, [](float v) { return v == 0.0f; })) {
    return ArgumentError(field, "all values are 0, which has no cosine");
  }
  return absl::OkStatus();
}

absl::Status CheckDim(const std::string& field, int64_t values_count, const CollectionSpec& spec) {
  if (values_count == spec.dim) return absl::OkStatus();
  return ArgumentError(field,
                       absl::StrCat(values_count, " values, the collection has dim ", spec.dim),
                       absl::StrCat(values_count), absl::StrCat(spec.dim));
}

absl::Status AppendEncoded(const std::string& field, const pb::VectorBlock& block,
                           const CollectionSpec& spec, SearchRequest* request) {
  const std::optional<RowType> type = RowTypeFromProto(block.dtype());
  if (!type.has_value()) {
    return ArgumentError(
        absl::StrCat(field, ".dtype"),
        absl::StrCat(static_cast<int>(block.dtype()), " must be FLOAT32, FLOAT16 or BFLOAT16"),
        absl::StrCat(static_cast<int>(block.dtype())), "FLOAT32, FLOAT16 or BFLOAT16");
  }
  const int64_t element_bytes = BytesPerElement(*type);
  const auto bytes = static_cast<int64_t>(block.data().size());
  if (bytes % element_bytes != 0) {
    return ArgumentError(absl::StrCat(field, ".data"),
                         absl::StrCat(bytes, " bytes are no whole vector of ", NameOf(*type),
                                      ": must be ", spec.dim * element_bytes),
                         absl::StrCat(bytes), absl::StrCat(spec.dim * element_bytes));
  }
  ABSL_RETURN_IF_ERROR(CheckDim(absl::StrCat(field, ".data"), bytes / element_bytes, spec));
  const auto* data = reinterpret_cast<const uint8_t*>(block.data().data());
  return WidenToFloat(*type, absl::MakeConstSpan(data, block.data().size()), &request->values);
}

}  // namespace

const char kSearchAdvice[] =
    "send fewer queries a request (SearchStream answers each separately), or ask for a smaller k "
    "or without vectors, payloads and attributes";
const char kFetchAdvice[] = "ask for fewer ids, or without vectors, payloads or attributes";
const char kScanAdvice[] = "ask without vectors, payloads or attributes";

absl::StatusOr<int32_t> KFromProto(bool present, uint32_t k, const RequestLimits& limits) {
  if (!present) return static_cast<int32_t>(std::min<int64_t>(kDefaultK, limits.k_max));
  ABSL_RETURN_IF_ERROR(CheckRange("k", k, 1, limits.k_max));
  return static_cast<int32_t>(k);
}

absl::Status AppendQuery(const std::string& field, const pb::Query& query,
                         const CollectionSpec& spec, SearchRequest* request) {
  const size_t begin = request->values.size();
  std::string path;
  Query native;
  switch (query.kind_case()) {
    case pb::Query::kVector: {
      path = absl::StrCat(field, ".vector");
      const auto& values = query.vector().values();
      ABSL_RETURN_IF_ERROR(CheckDim(path, values.size(), spec));
      request->values.insert(request->values.end(), values.begin(), values.end());
      break;
    }
    case pb::Query::kEncoded:
      path = absl::StrCat(field, ".encoded");
      ABSL_RETURN_IF_ERROR(AppendEncoded(path, query.encoded(), spec, request));
      break;
    case pb::Query::kRowId: {
      ABSL_ASSIGN_OR_RETURN(
          native.row_id, IdFromProto(absl::StrCat(field, ".row_id"), query.row_id(), spec.id_type));
      request->queries.push_back(std::move(native));
      return absl::OkStatus();
    }
    default: return ArgumentError(field, "none of vector, encoded and row_id is set", "absent");
  }
  const absl::Span<const float> values = absl::MakeConstSpan(request->values).subspan(begin);
  ABSL_RETURN_IF_ERROR(CheckValues(path, values, spec.metric));
  request->queries.push_back(std::move(native));
  return absl::OkStatus();
}

void SetVectorSpans(const CollectionSpec& spec, SearchRequest* request) {
  size_t begin = 0;
  const auto dim = static_cast<size_t>(spec.dim);
  for (Query& query : request->queries) {
    if (query.row_id.has_value()) continue;
    query.vector = absl::MakeConstSpan(request->values).subspan(begin, dim);
    begin += dim;
  }
}

absl::StatusOr<SearchPriority> PriorityFromProto(pb::SearchPriority priority) {
  return Known("priority", priority, NativeIn(kPriorityValues, priority),
               "INTERACTIVE (1) or BATCH (2)");
}

absl::StatusOr<std::optional<float>> ScoreThreshold(bool present, float score) {
  if (!present) return std::optional<float>();
  if (std::isnan(score)) {
    return ArgumentError("score_threshold", "is not a number", "nan");
  }
  return score;
}

absl::StatusOr<SearchRequest> FromProto(const pb::SearchRequest& request,
                                        std::shared_ptr<const Collection> collection,
                                        const RequestLimits& limits) {
  const CollectionSpec& spec = collection->spec();
  ABSL_RETURN_IF_ERROR(CheckRange("queries", request.queries_size(), 1, limits.queries_max));
  ABSL_ASSIGN_OR_RETURN(const int32_t k, KFromProto(request.has_k(), request.k(), limits));
  ABSL_ASSIGN_OR_RETURN(const std::optional<float> score_threshold,
                        ScoreThreshold(request.has_score_threshold(), request.score_threshold()));
  SearchRequest native;
  native.parts = {.vectors = request.with_vectors(),
                  .payloads = request.with_payload(),
                  .bytes_max = limits.response_bytes_max};
  native.queries.reserve(static_cast<size_t>(request.queries_size()));
  for (int i = 0; i < request.queries_size(); ++i) {
    ABSL_RETURN_IF_ERROR(
        AppendQuery(absl::StrCat("queries[", i, "]"), request.queries(i), spec, &native));
    native.queries.back().k = k;
    native.queries.back().score_threshold = score_threshold;
    native.queries.back().tell_parts = request.with_parts();
  }
  SetVectorSpans(spec, &native);
  native.collection = std::move(collection);
  return native;
}

namespace {

// Bytes of the parts of a score.
constexpr int64_t kScorePartsBytes = sizeof(float) + sizeof(double);
// Bytes of a result or list in addition to its values: tags, lengths, a cursor, the costs.
constexpr int64_t kFrameBytes = 128;

int64_t NeighborsMax(const SearchRequest& request, int64_t rows_count) {
  int64_t neighbors = 0;
  for (const Query& query : request.queries) {
    const int64_t rows = std::max<int64_t>(0, rows_count - (query.row_id.has_value() ? 1 : 0));
    neighbors += std::min<int64_t>(query.k, rows);
  }
  return neighbors;
}

// Copies the requested vectors and payloads of `native` into `message`.
template <typename Native, typename Message>
void PartsToProto(const CollectionSpec& spec, RowParts parts, const Native& native,
                  Message* message) {
  if (parts.vectors) {
    message->mutable_vectors()->set_dtype(ToProto(spec.row_type));
    message->mutable_vectors()->set_data(native.rows.data(), native.rows.size());
  }
  if (!parts.payloads) return;
  message->mutable_payloads()->Reserve(static_cast<int>(native.payloads.size()));
  for (int64_t i = 0; i < native.payloads.size(); ++i) {
    const std::string_view payload = native.payloads.at(i);
    message->add_payloads(payload.data(), payload.size());
  }
}

}  // namespace

int64_t ReplyBytesExpected(const SearchRequest& request, const RequestLimits& limits) {
  const CollectionSpec& spec = request.collection->spec();
  const CollectionStats stats = request.collection->Stats();
  int64_t neighbor_bytes = 4 + (spec.id_type == IdType::kUint64 ? 8 : 0);
  if (request.queries.front().tell_parts) neighbor_bytes += kScorePartsBytes;
  if (request.parts.vectors) neighbor_bytes += int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (request.parts.payloads || spec.id_type == IdType::kString) {
    const int64_t rows = std::max<int64_t>(1, stats.rows_count + stats.rows_deleted);
    neighbor_bytes += 2 * (stats.host_bytes / rows + 4);
  }
  neighbor_bytes += request.attribute_bytes;
  const int64_t rows_bytes =
      CheckedMul(NeighborsMax(request, stats.rows_count), neighbor_bytes).value_or(INT64_MAX / 2);
  const auto results = static_cast<int64_t>(request.queries.size());
  return std::min(limits.response_bytes_max, rows_bytes + (1 + results) * kFrameBytes);
}

int64_t ReplyBytesMin(const SearchRequest& request, int64_t rows_count) {
  // A filter or a minimum score may exclude every row.
  const Query& any = request.queries.front();
  if (any.filter != nullptr || any.score_threshold.has_value()) return 0;
  const CollectionSpec& spec = request.collection->spec();
  // A score and an id: 8 bytes for a number, or the tag, length and one byte of a text.
  int64_t neighbor_bytes = 4 + (spec.id_type == IdType::kUint64 ? 8 : 3);
  if (any.tell_parts) neighbor_bytes += kScorePartsBytes;
  if (request.parts.vectors) neighbor_bytes += int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (request.parts.payloads) neighbor_bytes += 2;
  return CheckedMul(NeighborsMax(request, rows_count), neighbor_bytes).value_or(INT64_MAX);
}

absl::Status WithAdvice(const absl::Status& status, const std::string& advice) {
  if (!absl::IsResourceExhausted(status) || RetryAfterMs(status).has_value()) return status;
  return absl::ResourceExhaustedError(absl::StrCat(std::string(status.message()), "; ", advice));
}

absl::Status CheckReplyBytes(int64_t bytes, const RequestLimits& limits,
                             const std::string& advice) {
  if (bytes <= limits.response_bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the reply would have ", bytes,
                                                   " bytes or more, the limit is ",
                                                   limits.response_bytes_max, ": ", advice));
}

void NeighborsToProto(const CollectionSpec& spec, RowParts parts, const Neighbors& neighbors,
                      pb::QueryResult* result) {
  IdsToProto(neighbors.ids, result->mutable_ids());
  result->mutable_scores()->Add(neighbors.scores.begin(), neighbors.scores.end());
  PartsToProto(spec, parts, neighbors, result);
}

absl::StatusOr<Neighbors> NeighborsFromProto(const std::string& field,
                                             const pb::QueryResult& result, IdType type,
                                             const RequestLimits& limits) {
  Neighbors neighbors;
  ABSL_ASSIGN_OR_RETURN(neighbors.ids, IdsFromProto(absl::StrCat(field, ".ids"), result.ids(), type,
                                                    {.min = 0, .max = limits.k_max}));
  if (neighbors.ids.size() != result.scores_size()) {
    return ArgumentError(field, absl::StrCat(neighbors.ids.size(), " ids and ",
                                             result.scores_size(), " scores: must be as many"));
  }
  neighbors.scores.Mutable().assign(result.scores().begin(), result.scores().end());
  return neighbors;
}

uint64_t ReadNsMin(int64_t bytes, double bytes_per_second) {
  constexpr double kNsMax = 0x1p63;
  if (bytes <= 0 || !(bytes_per_second > 0)) return 0;
  const double ns = std::ceil(static_cast<double>(bytes) / bytes_per_second * 1e9);
  return static_cast<uint64_t>(std::min(ns, kNsMax));
}

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are packed as they lie");

// Appends the bytes of the numbers.
template <typename T>
void Append(absl::Span<const T> numbers, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

// Sets everything except the neighbors.
void FactsToProto(const SearchReply& reply, pb::SearchResponse* response) {
  response->set_epoch(reply.result.epoch);
  const SearchCost& native = reply.result.cost;
  pb::SearchCost* cost = response->mutable_cost();
  cost->set_queue_us(static_cast<uint64_t>(reply.timing.queue_us));
  cost->set_device_us(static_cast<uint64_t>(native.device_us));
  cost->set_batch_size(static_cast<uint32_t>(reply.timing.batch_size));
  cost->set_backend(ToProto(native.backend));
  cost->set_scan_precision(ToProto(native.precision));
  cost->set_candidates(static_cast<uint64_t>(native.candidates));
  cost->set_rows_scanned(static_cast<uint64_t>(native.rows_scanned));
  cost->set_bytes_read(static_cast<uint64_t>(native.bytes_read));
  cost->mutable_escalations()->set_tighter(static_cast<uint64_t>(native.escalations.tighter));
  cost->mutable_escalations()->set_canonical(static_cast<uint64_t>(native.escalations.canonical));
}

}  // namespace

bool IsPacked(const pb::SearchRequest& request, const CollectionSpec& spec) {
  return request.packed() && spec.id_type == IdType::kUint64 && !request.with_payload() &&
         !request.with_vectors() && !request.with_parts() && request.attributes().empty() &&
         !request.has_filter_text() && !request.with_cursor() && !request.has_cursor() &&
         !request.with_digest() && !request.has_group_by();
}

void ToProto(const CollectionSpec& spec, RowParts parts, SearchReply reply,
             pb::SearchResponse* response) {
  FactsToProto(reply, response);
  response->mutable_results()->Reserve(static_cast<int>(reply.result.queries.size()));
  for (Neighbors& neighbors : reply.result.queries) {
    pb::QueryResult* const result = response->add_results();
    NeighborsToProto(spec, parts, neighbors, result);
    if (!neighbors.parts.empty()) ToProto(neighbors.parts, result->mutable_parts());
    neighbors = Neighbors();  // keep only one copy of a large answer at a time
  }
}

void ToPackedProto(SearchReply reply, pb::SearchResponse* response) {
  FactsToProto(reply, response);
  size_t hits = 0;
  for (const Neighbors& each : reply.result.queries) hits += each.scores.size();
  pb::PackedResults* const packed = response->mutable_packed();
  packed->mutable_ids()->reserve(hits * sizeof(uint64_t));
  packed->mutable_scores()->reserve(hits * sizeof(float));
  packed->mutable_counts()->reserve(reply.result.queries.size() * sizeof(uint32_t));
  for (Neighbors& each : reply.result.queries) {
    Append(each.ids.numbers(), packed->mutable_ids());
    Append(each.scores.span(), packed->mutable_scores());
    const auto count = static_cast<uint32_t>(each.scores.size());
    Append(absl::MakeConstSpan(&count, 1), packed->mutable_counts());
    each = Neighbors();  // keep only one copy of a large answer at a time
  }
}

namespace {

// For requests whose rows have vectors and payloads unless they ask for fewer parts.
template <typename Request>
RowParts AllPartsUnlessAsked(const Request& request, const RequestLimits& limits) {
  return {.vectors = !request.has_with_vectors() || request.with_vectors(),
          .payloads = !request.has_with_payload() || request.with_payload(),
          .bytes_max = limits.response_bytes_max};
}

}  // namespace

RowParts PartsFromProto(const pb::FetchRequest& request, const RequestLimits& limits) {
  return AllPartsUnlessAsked(request, limits);
}

RowParts PartsFromProto(const pb::ScanRequest& request, const RequestLimits& limits) {
  return AllPartsUnlessAsked(request, limits);
}

void ToProto(const CollectionSpec& spec, RowParts parts, const FetchResult& found,
             pb::ScanResponse* response) {
  response->set_epoch(found.epoch);
  IdsToProto(found.ids, response->mutable_ids());
  PartsToProto(spec, parts, found, response);
}

void ToProto(const CollectionSpec& spec, RowParts parts, const IdColumn& asked,
             const FetchResult& found, pb::FetchResponse* response) {
  response->set_epoch(found.epoch);
  IdsToProto(found.ids, response->mutable_ids());
  PartsToProto(spec, parts, found, response);
  IdColumn missing(asked.type());
  int64_t next = 0;  // found ids are in the order of the request
  for (int64_t i = 0; i < asked.size(); ++i) {
    if (next < found.ids.size() && asked.Compare(i, found.ids, next) == 0) {
      ++next;
    } else {
      missing.AppendFrom(asked, i);
    }
  }
  IdsToProto(missing, response->mutable_missing());
}

int64_t ReplyBytesMax(const CollectionSpec& spec, RowParts parts, const IdColumn& ids,
                      int64_t attribute_bytes, const RequestLimits& limits) {
  int64_t row_bytes = 4 + attribute_bytes;
  if (parts.vectors) row_bytes += int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (parts.payloads) row_bytes += limits.payload_bytes_max;
  const int64_t rows_bytes = CheckedMul(ids.size(), row_bytes).value_or(INT64_MAX / 2);
  return std::min(limits.response_bytes_max, rows_bytes + ids.bytes() + kFrameBytes);
}

int64_t ReplyBytesMin(const FetchResult& found) {
  return static_cast<int64_t>(found.rows.size()) + found.payloads.value_bytes() +
         IdListBytesMin(found.ids);
}

}  // namespace nearfield::server

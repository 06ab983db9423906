#include "client/cpp/convert.h"

#include <utility>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/packed_results.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/term_convert.h"
#include "client/cpp/text.h"
#include "nearfield/client/digest.h"

namespace nearfield::client {
namespace {

// The enums of the proto have frozen numbers, and the client's have the same.
static_assert(static_cast<int>(DataType::kBFloat16) == v1::DATA_TYPE_BFLOAT16);
static_assert(static_cast<int>(DataType::kFloat16) == v1::DATA_TYPE_FLOAT16);
static_assert(static_cast<int>(Metric::kCosine) == v1::METRIC_COSINE);
static_assert(static_cast<int>(Metric::kL2) == v1::METRIC_L2);
static_assert(static_cast<int>(IdType::kString) == v1::ID_TYPE_STRING);
static_assert(static_cast<int>(Backend::kGpu) == v1::BACKEND_GPU);
static_assert(static_cast<int>(ScanPrecision::kInt8) == v1::SCAN_PRECISION_INT8);
static_assert(static_cast<int>(ScanChoice::kInt8) == v1::SCAN_CHOICE_INT8);
static_assert(static_cast<int>(ScanChoice::kRows) == v1::SCAN_CHOICE_ROWS);
static_assert(static_cast<int>(ScanChoice::kInt16) == v1::SCAN_CHOICE_INT16);
static_assert(static_cast<int>(RowPlacement::kHost) == v1::ROW_HOME_HOST);

absl::Status Malformed(std::string_view what) {
  return absl::InternalError(Cat("malformed reply: ", what));
}

// Returns kUnknown for a value that a newer server may have added.
Backend FromProto(v1::Backend backend) {
  return v1::Backend_IsValid(backend) ? static_cast<Backend>(backend) : Backend::kUnknown;
}

ScanChoice FromProto(v1::ScanChoice scan) {
  return v1::ScanChoice_IsValid(scan) ? static_cast<ScanChoice>(scan) : ScanChoice::kUnknown;
}

RowPlacement FromProto(v1::RowHome rows) {
  return v1::RowHome_IsValid(rows) ? static_cast<RowPlacement>(rows) : RowPlacement::kUnknown;
}

absl::StatusOr<DataType> FromProto(v1::DataType dtype) {
  if (dtype < v1::DATA_TYPE_FLOAT32 || dtype > v1::DATA_TYPE_BFLOAT16) {
    return Malformed("an unknown data type");
  }
  return static_cast<DataType>(dtype);
}

absl::StatusOr<std::vector<std::string>> TakePayloads(
    google::protobuf::RepeatedPtrField<std::string>* proto, size_t rows_count) {
  std::vector<std::string> payloads;
  payloads.reserve(static_cast<size_t>(proto->size()));
  for (std::string& payload : *proto) payloads.push_back(std::move(payload));
  if (!payloads.empty() && payloads.size() != rows_count) return Malformed("payloads");
  return payloads;
}

absl::StatusOr<EncodedVectors> TakeVectors(v1::VectorBlock* proto, size_t rows_count) {
  EncodedVectors vectors;
  if (proto->data().empty()) return vectors;
  NF_ASSIGN_OR_RETURN(vectors.dtype, FromProto(proto->dtype()));
  vectors.bytes = std::move(*proto->mutable_data());
  if (rows_count == 0 || vectors.bytes.size() % (rows_count * ElementBytes(vectors.dtype)) != 0) {
    return Malformed("vectors");
  }
  return vectors;
}

absl::StatusOr<Groups> TakeGroups(v1::GroupColumn* proto, size_t rows_count) {
  Groups groups = {.values = TakeValues(proto->mutable_values()),
                   .rows_counts = {proto->rows_counts().begin(), proto->rows_counts().end()}};
  uint64_t sum = 0;
  for (const uint32_t rows : groups.rows_counts) sum += rows;
  if (Count(groups.values) != groups.rows_counts.size() || sum != rows_count) {
    return Malformed("groups");
  }
  return groups;
}

absl::StatusOr<Neighbors> TakeNeighbors(v1::QueryResult* proto) {
  Neighbors neighbors;
  NF_ASSIGN_OR_RETURN(neighbors.ids, TakeIds(proto->mutable_ids()));
  const size_t count = Count(neighbors.ids);
  if (static_cast<size_t>(proto->scores_size()) != count) return Malformed("scores");
  neighbors.scores.assign(proto->scores().begin(), proto->scores().end());
  NF_ASSIGN_OR_RETURN(neighbors.payloads, TakePayloads(proto->mutable_payloads(), count));
  NF_ASSIGN_OR_RETURN(neighbors.vectors, TakeVectors(proto->mutable_vectors(), count));
  NF_ASSIGN_OR_RETURN(neighbors.attributes, TakeColumns(proto->mutable_attributes(), count));
  if (proto->has_parts()) {
    NF_ASSIGN_OR_RETURN(neighbors.parts, TakeParts(proto->parts(), count));
  }
  neighbors.next_cursor = std::move(*proto->mutable_next_cursor());
  neighbors.cut = proto->cut();
  if (proto->has_matched_rows()) neighbors.matched_rows = proto->matched_rows();
  if (proto->has_groups()) {
    NF_ASSIGN_OR_RETURN(neighbors.groups, TakeGroups(proto->mutable_groups(), count));
  }
  return neighbors;
}

ScanPrecision FromProto(v1::ScanPrecision precision) {
  return v1::ScanPrecision_IsValid(precision) ? static_cast<ScanPrecision>(precision)
                                              : ScanPrecision::kUnknown;
}

SearchCost FromProto(const v1::SearchCost& proto) {
  return {.queue_us = proto.queue_us(),
          .device_us = proto.device_us(),
          .total_us = proto.total_us(),
          .batch_size = proto.batch_size(),
          .backend = FromProto(proto.backend()),
          .scan_precision = FromProto(proto.scan_precision()),
          .candidates = proto.candidates(),
          .rows_scanned = proto.rows_scanned(),
          .bytes_read = proto.bytes_read(),
          .escalations = {.tighter = proto.escalations().tighter(),
                          .canonical = proto.escalations().canonical()},
          .read_ns_min = proto.read_ns_min()};
}

}  // namespace

absl::StatusOr<IdColumn> TakeIds(v1::IdList* proto) {
  if (proto->numbers_size() > 0 && proto->texts_size() > 0) return Malformed("ids of two types");
  if (proto->texts_size() == 0) {
    return IdColumn(std::vector<uint64_t>(proto->numbers().begin(), proto->numbers().end()));
  }
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(proto->texts_size()));
  for (std::string& text : *proto->mutable_texts()) texts.push_back(std::move(text));
  return IdColumn(std::move(texts));
}

v1::DataType ToProto(DataType dtype) { return static_cast<v1::DataType>(dtype); }
v1::Metric ToProto(Metric metric) { return static_cast<v1::Metric>(metric); }
v1::IdType ToProto(IdType type) { return static_cast<v1::IdType>(type); }
v1::ScanChoice ToProto(ScanChoice scan) { return static_cast<v1::ScanChoice>(scan); }
v1::RowHome ToProto(RowPlacement rows) { return static_cast<v1::RowHome>(rows); }

void ToProto(const Id& id, v1::Id* proto) {
  if (const auto* number = std::get_if<uint64_t>(&id)) {
    proto->set_number(*number);
  } else {
    proto->set_text(std::get<std::string>(id));
  }
}

void ToProto(const IdColumn& ids, size_t begin, size_t end, v1::IdList* proto) {
  const auto from = static_cast<ptrdiff_t>(begin);
  const auto to = static_cast<ptrdiff_t>(end);
  if (const auto* numbers = std::get_if<std::vector<uint64_t>>(&ids)) {
    proto->mutable_numbers()->Add(numbers->begin() + from, numbers->begin() + to);
  } else {
    const auto& texts = std::get<std::vector<std::string>>(ids);
    proto->mutable_texts()->Add(texts.begin() + from, texts.begin() + to);
  }
}

void ToProto(const Query& query, v1::Query* proto) {
  if (const auto* values = std::get_if<std::span<const float>>(&query)) {
    proto->mutable_vector()->mutable_values()->Add(values->begin(), values->end());
  } else if (const auto* encoded = std::get_if<EncodedQuery>(&query)) {
    proto->mutable_encoded()->set_dtype(ToProto(encoded->dtype));
    proto->mutable_encoded()->set_data(encoded->bytes.data(), encoded->bytes.size());
  } else {
    ToProto(std::get<Id>(query), proto->mutable_row_id());
  }
}

void ToProto(const Neighbors& neighbors, v1::QueryResult* proto) {
  ToProto(neighbors.ids, 0, Count(neighbors.ids), proto->mutable_ids());
  proto->mutable_scores()->Add(neighbors.scores.begin(), neighbors.scores.end());
}

absl::Status ToProto(std::string_view collection, std::span<const Query> queries,
                     const SearchOptions& options, v1::SearchRequest* request) {
  request->set_collection(std::string(collection));
  for (const Query& query : queries) ToProto(query, request->add_queries());
  request->set_k(options.k);
  request->set_packed(true);  // where it has an effect
  if (options.with_payload) request->set_with_payload(true);
  if (options.with_vectors) request->set_with_vectors(true);
  NF_RETURN_IF_ERROR(AddNames(options.attributes, request->mutable_attributes()));
  NF_RETURN_IF_ERROR(SetFilter(options.filter, request));
  NF_RETURN_IF_ERROR(SetTerms(options.terms, request));
  if (options.with_parts) request->set_with_parts(true);
  if (options.score_threshold) request->set_score_threshold(*options.score_threshold);
  if (!options.group_by.empty()) {
    NF_RETURN_IF_ERROR(CheckText("group_by", options.group_by));
    request->set_group_by(options.group_by);
    request->set_group_rows(options.group_rows);
  }
  if (options.min_epoch) request->set_min_epoch(*options.min_epoch);
  if (options.at_epoch) request->set_at_epoch(*options.at_epoch);
  if (options.incarnation) request->set_incarnation(*options.incarnation);
  if (options.priority == SearchPriority::kBatch) {
    request->set_priority(v1::SEARCH_PRIORITY_BATCH);
  }
  if (options.with_cursor) request->set_with_cursor(true);
  if (!options.cursor.empty()) request->set_cursor(options.cursor);
  if (options.with_digest) request->set_with_digest(true);
  if (options.verify) request->set_verify(true);
  return absl::OkStatus();
}

Limits FromProto(const v1::GetLimitsResponse& proto) {
  return {.dim_max = proto.dim_max(),
          .k_max = proto.k_max(),
          .queries_max = proto.queries_max(),
          .fetch_ids_max = proto.fetch_ids_max(),
          .request_bytes_max = proto.request_bytes_max(),
          .response_bytes_max = proto.response_bytes_max(),
          .id_bytes_max = proto.id_bytes_max(),
          .payload_bytes_max = proto.payload_bytes_max(),
          .collection_name_bytes_max = proto.collection_name_bytes_max(),
          .upload_block_bytes_max = proto.upload_block_bytes_max(),
          .rows_per_collection_max = proto.rows_per_collection_max(),
          .collections_max = proto.collections_max(),
          .queue_requests_max = proto.queue_requests_max(),
          .cursor_ms = proto.cursor_ms(),
          .page_rows_max = proto.page_rows_max(),
          .epochs_kept_max = proto.epochs_kept_max(),
          .epochs_kept_percent = proto.epochs_kept_percent(),
          .uploads_max = proto.uploads_max(),
          .verify_max = proto.verify_max(),
          .aliases_max = proto.aliases_max(),
          .upload_token_bytes_max = proto.upload_token_bytes_max(),
          .attributes_max = proto.attributes_max(),
          .attribute_keyword_bytes_max = proto.attribute_keyword_bytes_max(),
          .attribute_list_values_max = proto.attribute_list_values_max(),
          .attribute_row_bytes_max = proto.attribute_row_bytes_max(),
          .filter_levels_max = proto.filter_levels_max(),
          .filter_conditions_max = proto.filter_conditions_max(),
          .filter_values_max = proto.filter_values_max(),
          .filter_bytes_max = proto.filter_bytes_max(),
          .facet_values_max = proto.facet_values_max(),
          .upload_tokens_max = proto.upload_tokens_max(),
          .upload_token_s = proto.upload_token_s(),
          .upload_tokens_committed_max = proto.upload_tokens_committed_max(),
          .upload_idle_ms = proto.upload_idle_ms(),
          .caller_share_percent = proto.caller_share_percent(),
          .search_ms_max = proto.search_ms_max(),
          .reply_unread_ms = proto.reply_unread_ms(),
          .requests_bytes_max = proto.requests_bytes_max(),
          .replies_bytes_max = proto.replies_bytes_max(),
          .streams_max = proto.streams_max(),
          .snapshots_max = proto.snapshots_max()};
}

Capacity FromProto(const v1::GetCapacityResponse& proto) {
  Capacity capacity = {.backend = FromProto(proto.backend()),
                       .device_name = proto.device_name(),
                       .device_bytes_total = proto.device_bytes_total(),
                       .device_bytes_used = proto.device_bytes_used(),
                       .host_bytes_total = proto.host_bytes_total(),
                       .host_bytes_used = proto.host_bytes_used(),
                       .host_rows_bytes_total = proto.host_rows_bytes_total(),
                       .host_rows_bytes_used = proto.host_rows_bytes_used(),
                       .attribute_bytes_total = proto.attribute_bytes_total(),
                       .attribute_bytes_used = proto.attribute_bytes_used(),
                       .server_version = proto.server_version()};
  for (const v1::PrincipalUse& use : proto.principals()) {
    capacity.principals.push_back({.principal = use.principal(), .quotas = {}});
    for (const v1::QuotaUse& quota : use.quotas()) {
      capacity.principals.back().quotas.push_back(
          {.name = quota.name(), .used = quota.used(), .max = quota.max()});
    }
  }
  for (const v1::DeviceUse& use : proto.devices()) {
    capacity.devices.push_back(
        {.name = use.name(), .bytes_total = use.bytes_total(), .bytes_used = use.bytes_used()});
  }
  return capacity;
}

absl::StatusOr<CollectionInfo> FromProto(v1::CollectionInfo* proto) {
  if (proto->metric() < v1::METRIC_DOT || proto->metric() > v1::METRIC_L2) {
    return Malformed("an unknown metric");
  }
  if (proto->id_type() < v1::ID_TYPE_UINT64 || proto->id_type() > v1::ID_TYPE_STRING) {
    return Malformed("an unknown id type");
  }
  CollectionInfo info;
  NF_ASSIGN_OR_RETURN(info.spec.dtype, FromProto(proto->dtype()));
  info.spec.name = std::move(*proto->mutable_name());
  info.spec.dim = proto->dim();
  info.spec.metric = static_cast<Metric>(proto->metric());
  info.spec.id_type = static_cast<IdType>(proto->id_type());
  info.spec.scan = FromProto(proto->scan());
  info.spec.rows = FromProto(proto->rows());
  info.spec.devices = proto->devices();
  info.spec.embedding_model = std::move(*proto->mutable_embedding_model());
  for (v1::AttributeSpec& attribute : *proto->mutable_attributes()) {
    info.spec.attributes.push_back(FromProto(&attribute));
  }
  info.epoch = proto->epoch();
  info.incarnation = proto->incarnation();
  info.rows_count = proto->rows_count();
  info.rows_deleted = proto->rows_deleted();
  info.generations_count = proto->generations_count();
  info.device_bytes = proto->device_bytes();
  info.host_bytes = proto->host_bytes();
  for (std::string& alias : *proto->mutable_aliases()) info.aliases.push_back(std::move(alias));
  info.scan_precision = FromProto(proto->scan_precision());
  info.durable = proto->durable();
  info.error = std::move(*proto->mutable_error());
  info.read_failures_count = proto->read_failures_count();
  info.owner = std::move(*proto->mutable_owner());
  return info;
}

SnapshotInfo FromProto(v1::SnapshotInfo* proto) {
  return {.name = std::move(*proto->mutable_name()),
          .files_count = proto->files_count(),
          .bytes = proto->bytes(),
          .created_unix_s = proto->created_unix_s(),
          .error = std::move(*proto->mutable_error()),
          .owner = std::move(*proto->mutable_owner())};
}

CompactAnswer FromProto(const v1::CompactResponse& proto) {
  return {.rows_given_back = proto.rows_given_back(),
          .device_bytes_given_back = proto.device_bytes_given_back(),
          .host_bytes_given_back = proto.host_bytes_given_back(),
          .stored_rows_given_back = proto.stored_rows_given_back(),
          .stored_bytes_given_back = proto.stored_bytes_given_back()};
}

absl::StatusOr<SearchAnswer> FromProto(v1::SearchResponse* proto) {
  SearchAnswer answer;
  answer.epoch = proto->epoch();
  answer.incarnation = proto->incarnation();
  answer.cost = FromProto(proto->cost());
  if (proto->has_packed()) {
    NF_ASSIGN_OR_RETURN(answer.results, Unpack(proto->packed()));
    return answer;
  }
  answer.results.reserve(static_cast<size_t>(proto->results_size()));
  for (v1::QueryResult& result : *proto->mutable_results()) {
    NF_ASSIGN_OR_RETURN(Neighbors neighbors, TakeNeighbors(&result));
    answer.results.push_back(std::move(neighbors));
  }
  if (!proto->has_result_digest()) return answer;
  answer.digest = std::move(*proto->mutable_result_digest());
  if (answer.digest == ResultDigest(answer.results)) return answer;
  return absl::DataLossError("the reply does not fit its own digest: it was damaged on the way");
}

absl::Status CheckResults(const SearchAnswer& answer, size_t queries_count) {
  if (answer.results.size() == queries_count) return absl::OkStatus();
  return Malformed(Cat(answer.results.size(), " results for ", queries_count, " queries"));
}

absl::StatusOr<FetchAnswer> FromProto(v1::FetchResponse* proto) {
  FetchAnswer answer;
  answer.epoch = proto->epoch();
  answer.incarnation = proto->incarnation();
  NF_ASSIGN_OR_RETURN(answer.ids, TakeIds(proto->mutable_ids()));
  NF_ASSIGN_OR_RETURN(answer.missing, TakeIds(proto->mutable_missing()));
  const size_t count = Count(answer.ids);
  NF_ASSIGN_OR_RETURN(answer.vectors, TakeVectors(proto->mutable_vectors(), count));
  NF_ASSIGN_OR_RETURN(answer.payloads, TakePayloads(proto->mutable_payloads(), count));
  NF_ASSIGN_OR_RETURN(answer.attributes, TakeColumns(proto->mutable_attributes(), count));
  return answer;
}

absl::StatusOr<ScanPage> FromProto(v1::ScanResponse* proto) {
  ScanPage page;
  page.epoch = proto->epoch();
  page.incarnation = proto->incarnation();
  NF_ASSIGN_OR_RETURN(page.ids, TakeIds(proto->mutable_ids()));
  const size_t count = Count(page.ids);
  NF_ASSIGN_OR_RETURN(page.vectors, TakeVectors(proto->mutable_vectors(), count));
  NF_ASSIGN_OR_RETURN(page.payloads, TakePayloads(proto->mutable_payloads(), count));
  NF_ASSIGN_OR_RETURN(page.attributes, TakeColumns(proto->mutable_attributes(), count));
  page.next_cursor = std::move(*proto->mutable_next_cursor());
  page.rows_count = proto->rows_count();
  return page;
}

absl::StatusOr<VerifyAnswer> FromProto(v1::VerifyResponse* proto) {
  VerifyAnswer answer;
  answer.equal = proto->equal();
  answer.epoch = proto->epoch();
  answer.rows_checked = proto->rows_checked();
  answer.first_difference = proto->first_difference();
  answer.explanation = std::move(*proto->mutable_explanation());
  NF_ASSIGN_OR_RETURN(answer.expected, TakeNeighbors(proto->mutable_expected()));
  answer.oracle_us = proto->oracle_us();
  return answer;
}

}  // namespace nearfield::client

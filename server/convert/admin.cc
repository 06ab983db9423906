#include "server/convert/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "server/convert/enum_table.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

constexpr size_t kEmbeddingModelBytesMax = 255;

}  // namespace

absl::StatusOr<CollectionSpec> FromProto(const pb::CreateCollectionRequest& request) {
  ABSL_RETURN_IF_ERROR(CheckRange("dim", request.dim(), 1, kDimMax));
  CollectionSpec spec = {.dim = static_cast<int32_t>(request.dim())};
  ABSL_ASSIGN_OR_RETURN(spec.metric, Known("metric", request.metric(),
                                           MetricFromProto(request.metric()), "DOT, COSINE or L2"));
  ABSL_ASSIGN_OR_RETURN(spec.row_type,
                        Known("dtype", request.dtype(), RowTypeFromProto(request.dtype()),
                              "FLOAT32, FLOAT16 or BFLOAT16"));
  ABSL_ASSIGN_OR_RETURN(
      spec.id_type,
      Known("id_type", request.id_type(), IdTypeFromProto(request.id_type()), "UINT64 or STRING"));
  ABSL_ASSIGN_OR_RETURN(spec.scan,
                        Known("scan", request.scan(), ScanChoiceFromProto(request.scan()),
                              "AUTO, INT8, INT16 or ROWS"));
  ABSL_ASSIGN_OR_RETURN(spec.rows, Known("rows", request.rows(),
                                         RowPlacementFromProto(request.rows()), "DEVICE or HOST"));
  ABSL_RETURN_IF_ERROR(CheckRange("devices", request.devices(), 0, kDevicesMax));
  spec.devices = static_cast<int32_t>(request.devices());
  if (request.embedding_model().size() > kEmbeddingModelBytesMax) {
    return MustBe("embedding_model", absl::StrCat(request.embedding_model().size(), " bytes"),
                  absl::StrCat("at most ", kEmbeddingModelBytesMax));
  }
  spec.embedding_model = request.embedding_model();
  if (spec.rows == RowPlacement::kHost && spec.scan == ScanChoice::kRows) {
    return ArgumentError("scan",
                         "ROWS, must be AUTO, INT8 or INT16 where rows is HOST: the device then "
                         "holds nothing but codes",
                         "ROWS", "AUTO, INT8 or INT16");
  }
  return spec;
}

void ToProto(const std::string& name, const CollectionSpec& spec, const CollectionStats& stats,
             pb::CollectionInfo* info) {
  info->set_name(name);
  info->set_dim(static_cast<uint32_t>(spec.dim));
  info->set_metric(ToProto(spec.metric));
  info->set_dtype(ToProto(spec.row_type));
  info->set_id_type(ToProto(spec.id_type));
  info->set_scan(ToProto(spec.scan));
  info->set_rows(ToProto(spec.rows));
  info->set_devices(static_cast<uint32_t>(spec.devices));
  info->set_embedding_model(spec.embedding_model);
  info->set_scan_precision(ToProto(stats.scan));
  info->set_epoch(stats.epoch);
  info->set_rows_count(static_cast<uint64_t>(stats.rows_count));
  info->set_rows_deleted(static_cast<uint64_t>(stats.rows_deleted));
  info->set_generations_count(static_cast<uint32_t>(stats.generations_count));
  info->set_device_bytes(static_cast<uint64_t>(stats.device_bytes));
  info->set_host_bytes(static_cast<uint64_t>(stats.host_bytes));
}

void ToProto(const EngineInfo& info, const Capacity& capacity, pb::GetCapacityResponse* response) {
  response->set_backend(ToProto(info.backend));
  response->set_device_name(info.device_name);
  response->set_device_bytes_total(static_cast<uint64_t>(capacity.device_bytes_total));
  response->set_device_bytes_used(static_cast<uint64_t>(capacity.device_bytes_used));
  response->set_host_bytes_total(static_cast<uint64_t>(capacity.host_bytes_total));
  response->set_host_bytes_used(static_cast<uint64_t>(capacity.host_bytes_used));
  response->set_host_rows_bytes_total(static_cast<uint64_t>(capacity.host_rows_bytes_total));
  response->set_host_rows_bytes_used(static_cast<uint64_t>(capacity.host_rows_bytes_used));
  response->set_server_version(NEARFIELD_VERSION);
  for (const DeviceCapacity& device : capacity.devices) {
    pb::DeviceUse& use = *response->add_devices();
    use.set_name(device.name);
    use.set_bytes_total(static_cast<uint64_t>(device.bytes_total));
    use.set_bytes_used(static_cast<uint64_t>(device.bytes_used));
  }
}

void ToProto(const PassCounts& counts, pb::PassCounters* counters) {
  const auto queries = [&](ScanPrecision precision) {
    const auto it = counts.queries.find(precision);
    return it == counts.queries.end() ? uint64_t{0} : static_cast<uint64_t>(it->second.sum());
  };
  int64_t passes = 0;
  for (const auto& [precision, batches] : counts.queries) passes += batches.count();
  counters->set_passes_count(static_cast<uint64_t>(passes));
  counters->set_queries_rows_count(queries(ScanPrecision::kRows));
  counters->set_queries_int8_count(queries(ScanPrecision::kInt8));
  counters->set_device_us(static_cast<uint64_t>(counts.device_us));
  counters->set_candidates(static_cast<uint64_t>(counts.candidates));
  counters->set_bytes_read(static_cast<uint64_t>(counts.bytes_read));
  counters->mutable_escalations()->set_tighter(static_cast<uint64_t>(counts.escalations.tighter));
  counters->mutable_escalations()->set_canonical(
      static_cast<uint64_t>(counts.escalations.canonical));
}

void ToProto(const AuditCounts& counts, pb::AuditCounters* counters) {
  counters->set_answers_audited_count(static_cast<uint64_t>(counts.answers_audited));
  counters->set_answers_dropped_count(static_cast<uint64_t>(counts.answers_dropped));
  counters->set_answers_failed_count(static_cast<uint64_t>(counts.answers_failed));
  counters->set_mismatches_count(static_cast<uint64_t>(counts.mismatches));
  counters->set_rows_checked_count(static_cast<uint64_t>(counts.rows_checked));
}

void ToProto(const AcceptCounts& counts, pb::ConnectionCounters* counters) {
  counters->set_open_count(static_cast<uint64_t>(counts.open));
  counters->set_accepted_count(static_cast<uint64_t>(counts.accepted));
  counters->set_refused_count(static_cast<uint64_t>(counts.refused));
  counters->set_pauses_count(static_cast<uint64_t>(counts.pauses));
}

void ToProto(const SnapshotInfo& snapshot, pb::SnapshotInfo* info) {
  info->set_name(snapshot.name);
  info->set_files_count(static_cast<uint64_t>(snapshot.files));
  info->set_bytes(static_cast<uint64_t>(snapshot.bytes));
  info->set_created_unix_s(snapshot.created_unix_s);
  info->set_error(std::string(snapshot.state.message()));
  info->set_owner(snapshot.owner);
}

void ToProto(const GivenBack& given, pb::CompactResponse* response) {
  response->set_rows_given_back(static_cast<uint64_t>(given.rows));
  response->set_device_bytes_given_back(static_cast<uint64_t>(given.device_bytes));
  response->set_host_bytes_given_back(static_cast<uint64_t>(given.host_bytes));
  response->set_stored_rows_given_back(static_cast<uint64_t>(given.stored_rows));
  response->set_stored_bytes_given_back(static_cast<uint64_t>(given.stored_bytes));
}

absl::StatusOr<VerifyTask> FromProto(const pb::VerifyRequest& request,
                                     std::shared_ptr<const Collection> collection,
                                     const RequestLimits& limits) {
  const CollectionSpec& spec = collection->spec();
  VerifyTask task;
  ABSL_ASSIGN_OR_RETURN(const int32_t k, KFromProto(request.has_k(), request.k(), limits));
  ABSL_RETURN_IF_ERROR(AppendQuery("query", request.query(), spec, &task.search));
  task.search.queries.back().k = k;
  ABSL_ASSIGN_OR_RETURN(task.search.queries.back().score_threshold,
                        ScoreThreshold(request.has_score_threshold(), request.score_threshold()));
  const auto skip_max = static_cast<uint64_t>(limits.page_rows_max);
  if (request.skip() > skip_max) {
    return ArgumentError("skip",
                         absl::StrCat(request.skip(), ", the limit page_rows_max is ", skip_max),
                         absl::StrCat(request.skip()), absl::StrCat(skip_max));
  }
  task.search.queries.back().skip = static_cast<int64_t>(request.skip());
  SetVectorSpans(spec, &task.search);
  if (request.has_epoch()) task.epoch = request.epoch();
  if (request.has_claim()) {
    ABSL_ASSIGN_OR_RETURN(task.claim,
                          NeighborsFromProto("claim", request.claim(), spec.id_type, limits));
  }
  task.search.collection = std::move(collection);
  return task;
}

void ToProto(const CollectionSpec& spec, const VerifyResult& result, int64_t oracle_us,
             pb::VerifyResponse* response) {
  response->set_equal(result.equal);
  response->set_epoch(result.epoch);
  response->set_rows_checked(static_cast<uint64_t>(result.rows_checked));
  response->set_first_difference(static_cast<int32_t>(result.first_difference));
  response->set_explanation(result.explanation);
  NeighborsToProto(spec, RowParts{}, result.expected, response->mutable_expected());
  response->set_oracle_us(static_cast<uint64_t>(oracle_us));
}

}  // namespace nearfield::server

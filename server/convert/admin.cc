#include "server/convert/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {

absl::StatusOr<CollectionSpec> FromProto(const pb::CreateCollectionRequest& request) {
  if (request.attributes_size() > 0) return Reserved("attributes", "attribute columns");
  if (request.dim() < 1 || request.dim() > static_cast<uint32_t>(kDimMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("dim: ", request.dim(), ", must be 1 .. ", kDimMax));
  }
  const std::optional<Metric> metric = MetricFromProto(request.metric());
  if (!metric.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("metric: ", static_cast<int>(request.metric()),
                                                   ", must be DOT, COSINE or L2"));
  }
  const std::optional<RowType> row_type = RowTypeFromProto(request.dtype());
  if (!row_type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("dtype: ", static_cast<int>(request.dtype()),
                                                   ", must be FLOAT32, FLOAT16 or BFLOAT16"));
  }
  const std::optional<IdType> id_type = IdTypeFromProto(request.id_type());
  if (!id_type.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("id_type: ", static_cast<int>(request.id_type()),
                                                   ", must be UINT64 or STRING"));
  }
  return CollectionSpec{.dim = static_cast<int32_t>(request.dim()),
                        .metric = *metric,
                        .row_type = *row_type,
                        .id_type = *id_type};
}

void ToProto(const std::string& name, const CollectionSpec& spec, const CollectionStats& stats,
             pb::CollectionInfo* info) {
  info->set_name(name);
  info->set_dim(static_cast<uint32_t>(spec.dim));
  info->set_metric(ToProto(spec.metric));
  info->set_dtype(ToProto(spec.row_type));
  info->set_id_type(ToProto(spec.id_type));
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
  response->set_server_version(NEARFIELD_VERSION);
}

absl::Status CheckServed(const pb::VerifyRequest& request) {
  if (request.has_filter()) return Reserved("filter", "filtered verifications");
  return absl::OkStatus();
}

absl::StatusOr<VerifyTask> FromProto(const pb::VerifyRequest& request,
                                     std::shared_ptr<const Collection> collection,
                                     const RequestLimits& limits) {
  ABSL_RETURN_IF_ERROR(CheckServed(request));
  const CollectionSpec& spec = collection->spec();
  VerifyTask task;
  ABSL_ASSIGN_OR_RETURN(const int32_t k, KFromProto(request.has_k(), request.k(), limits));
  ABSL_RETURN_IF_ERROR(AppendQuery("query", request.query(), spec, &task.search));
  task.search.queries.back().k = k;
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

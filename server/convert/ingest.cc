#include "server/convert/ingest.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

absl::Status CheckVectors(const pb::VectorBlock& vectors, const CollectionSpec& spec,
                          int64_t rows) {
  const std::optional<RowType> type = RowTypeFromProto(vectors.dtype());
  if (type != spec.row_type) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block.vectors.dtype: ",
        type.has_value() ? NameOf(*type) : absl::StrCat(static_cast<int>(vectors.dtype())),
        ", the collection has ", NameOf(spec.row_type)));
  }
  const auto bytes = static_cast<int64_t>(vectors.data().size());
  const int64_t row_bytes = int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (CheckedMul(rows, row_bytes) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("block.vectors.data: ", bytes, " bytes for ", rows, " ids, must be ",
                     row_bytes, " a row (dim ", spec.dim, ", ", NameOf(spec.row_type), ")"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BytesColumn> PayloadsFromProto(const pb::UploadBlock& block, int64_t rows,
                                              int64_t bytes_max) {
  if (block.payloads_size() != 0 && block.payloads_size() != rows) {
    return absl::InvalidArgumentError(absl::StrCat("block.payloads: ", block.payloads_size(),
                                                   " for ", rows,
                                                   " ids, must be none or one a row"));
  }
  BytesColumn column;
  for (int i = 0; i < block.payloads_size(); ++i) {
    const std::string& payload = block.payloads(i);
    if (static_cast<int64_t>(payload.size()) > bytes_max) {
      return absl::InvalidArgumentError(absl::StrCat("block.payloads[", i, "]: ", payload.size(),
                                                     " bytes, the limit is ", bytes_max));
    }
    column.Append(payload);
  }
  return column;
}

std::optional<UploadMode> UploadModeFromProto(pb::UploadMode mode) {
  switch (mode) {
    case pb::UPLOAD_MODE_UNSPECIFIED:
    case pb::UPLOAD_MODE_INSERT:
      return UploadMode::kInsert;
    case pb::UPLOAD_MODE_UPSERT:
      return UploadMode::kUpsert;
    case pb::UPLOAD_MODE_REPLACE:
      return UploadMode::kReplace;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<UploadReservation> FromProto(const pb::UploadBegin& begin) {
  const std::optional<UploadMode> mode = UploadModeFromProto(begin.mode());
  if (!mode.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("begin.mode: ", static_cast<int>(begin.mode()),
                                                   ", must be INSERT, UPSERT or REPLACE"));
  }
  if (begin.has_upload_token() &&
      (begin.upload_token().empty() ||
       begin.upload_token().size() > static_cast<size_t>(kUploadTokenBytesMax))) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin.upload_token: ", begin.upload_token().size(), " bytes, must be 1 .. ",
                     kUploadTokenBytesMax));
  }
  if (!begin.has_rows_max() || begin.rows_max() < 1 ||
      begin.rows_max() > static_cast<uint64_t>(kRowsMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "begin.rows_max: ", begin.has_rows_max() ? absl::StrCat(begin.rows_max()) : "absent",
        ", must be 1 .. ", kRowsMax));
  }
  constexpr auto kPayloadMax = std::numeric_limits<int64_t>::max();
  if (!begin.has_payload_bytes_max() ||
      begin.payload_bytes_max() > static_cast<uint64_t>(kPayloadMax)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "begin.payload_bytes_max: ",
        begin.has_payload_bytes_max() ? absl::StrCat(begin.payload_bytes_max()) : "absent",
        ", must be 0 .. ", kPayloadMax));
  }
  return UploadReservation{.rows_max = static_cast<int64_t>(begin.rows_max()),
                           .payload_bytes_max = static_cast<int64_t>(begin.payload_bytes_max()),
                           .mode = *mode};
}

absl::StatusOr<BlockRows> FromProto(const pb::UploadBlock& block, const CollectionSpec& spec,
                                    const RequestLimits& limits, UploadTotals* totals) {
  const int64_t rows_left = totals->declared.rows_max - totals->rows;
  BlockRows native;
  ABSL_ASSIGN_OR_RETURN(native.ids,
                        IdsFromProto("block.ids", block.ids(), spec.id_type,
                                     {.min = 1, .max = std::numeric_limits<int64_t>::max()}));
  const int64_t rows = native.ids.size();
  if (rows > rows_left) {
    return absl::InvalidArgumentError(absl::StrCat("block.ids: ", rows, " rows after ",
                                                   totals->rows, ", begin.rows_max declared ",
                                                   totals->declared.rows_max));
  }
  ABSL_RETURN_IF_ERROR(CheckVectors(block.vectors(), spec, rows));
  ABSL_ASSIGN_OR_RETURN(native.payloads, PayloadsFromProto(block, rows, limits.payload_bytes_max));
  const int64_t payload_bytes = native.payloads.value_bytes();
  if (payload_bytes > totals->declared.payload_bytes_max - totals->payload_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("block.payloads: ", payload_bytes, " bytes after ", totals->payload_bytes,
                     ", begin.payload_bytes_max declared ", totals->declared.payload_bytes_max));
  }
  const std::string& data = block.vectors().data();
  native.rows = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(data.data()), data.size());
  totals->rows += rows;
  totals->payload_bytes += payload_bytes;
  totals->bytes += static_cast<int64_t>(block.ByteSizeLong());
  return native;
}

absl::Status CheckCommit(const pb::UploadCommit& commit, const UploadTotals& totals) {
  if (!commit.has_rows_count() || commit.rows_count() == static_cast<uint64_t>(totals.rows))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("commit.rows_count: ", commit.rows_count(),
                                                 ", the upload has ", totals.rows, " rows"));
}

absl::Status CheckOneOfIdsAndFilter(const pb::DeleteRequest& request) {
  const int64_t ids = int64_t{request.ids().numbers_size()} + request.ids().texts_size();
  if (request.has_filter() && ids > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("filter: given with ", ids, " ids, must be one of the two"));
  }
  return absl::OkStatus();
}

absl::StatusOr<IdColumn> FromProto(const pb::DeleteRequest& request, const CollectionSpec& spec,
                                   const RequestLimits& limits) {
  return IdsFromProto("ids", request.ids(), spec.id_type, {.min = 1, .max = limits.fetch_ids_max});
}

}  // namespace nearfield::server

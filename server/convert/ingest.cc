#include "server/convert/ingest.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "server/attributes/filter_text.h"
#include "server/convert/enum_table.h"
#include "server/convert/filter.h"

namespace nearfield::server {
namespace {

absl::Status CheckVectors(const pb::VectorBlock& vectors, const CollectionSpec& spec,
                          int64_t rows) {
  const std::optional<RowType> type = RowTypeFromProto(vectors.dtype());
  if (type != spec.row_type) {
    const std::string given =
        type.has_value() ? NameOf(*type) : absl::StrCat(static_cast<int>(vectors.dtype()));
    return ArgumentError("block.vectors.dtype",
                         absl::StrCat(given, ", the collection has ", NameOf(spec.row_type)), given,
                         NameOf(spec.row_type));
  }
  const auto bytes = static_cast<int64_t>(vectors.data().size());
  const int64_t row_bytes = int64_t{spec.dim} * BytesPerElement(spec.row_type);
  if (CheckedMul(rows, row_bytes) != bytes) {
    return ArgumentError("block.vectors.data",
                         absl::StrCat(bytes, " bytes for ", rows, " ids, must be ", row_bytes,
                                      " a row (dim ", spec.dim, ", ", NameOf(spec.row_type), ")"),
                         absl::StrCat(bytes, " bytes"), absl::StrCat(row_bytes, " bytes a row"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BytesColumn> PayloadsFromProto(const pb::UploadBlock& block, int64_t rows,
                                              int64_t bytes_max) {
  if (block.payloads_size() != 0 && block.payloads_size() != rows) {
    return ArgumentError(
        "block.payloads",
        absl::StrCat(block.payloads_size(), " for ", rows, " ids, must be none or one a row"),
        absl::StrCat(block.payloads_size()), absl::StrCat("0 or ", rows));
  }
  BytesColumn column;
  for (int i = 0; i < block.payloads_size(); ++i) {
    const std::string& payload = block.payloads(i);
    if (static_cast<int64_t>(payload.size()) > bytes_max) {
      return ArgumentError(absl::StrCat("block.payloads[", i, "]"),
                           absl::StrCat(payload.size(), " bytes, must be at most ", bytes_max),
                           absl::StrCat(payload.size(), " bytes"), absl::StrCat(bytes_max));
    }
    column.Append(payload);
  }
  return column;
}

constexpr std::pair<pb::UploadMode, UploadMode> kUploadModes[] = {
    {pb::UPLOAD_MODE_INSERT, UploadMode::kInsert},
    {pb::UPLOAD_MODE_UNSPECIFIED, UploadMode::kInsert},
    {pb::UPLOAD_MODE_UPSERT, UploadMode::kUpsert},
    {pb::UPLOAD_MODE_REPLACE, UploadMode::kReplace}};

}  // namespace

absl::StatusOr<UploadReservation> FromProto(const pb::UploadBegin& begin) {
  ABSL_ASSIGN_OR_RETURN(const UploadMode mode,
                        Known("begin.mode", begin.mode(), NativeIn(kUploadModes, begin.mode()),
                              "INSERT, UPSERT or REPLACE"));
  if (!pb::ZeroRows_IsValid(begin.zero_rows())) {
    return MustBe("begin.zero_rows", absl::StrCat(begin.zero_rows()), "REFUSE or ACCEPT");
  }
  if (begin.has_upload_token() &&
      (begin.upload_token().empty() ||
       begin.upload_token().size() > static_cast<size_t>(kUploadTokenBytesMax))) {
    return MustBe("begin.upload_token", absl::StrCat(begin.upload_token().size(), " bytes"),
                  absl::StrCat("1 .. ", kUploadTokenBytesMax));
  }
  if (!begin.has_rows_max() || begin.rows_max() < 1 ||
      begin.rows_max() > static_cast<uint64_t>(kRowsMax)) {
    return MustBe("begin.rows_max",
                  begin.has_rows_max() ? absl::StrCat(begin.rows_max()) : "absent",
                  absl::StrCat("1 .. ", kRowsMax));
  }
  constexpr auto kPayloadMax = std::numeric_limits<int64_t>::max();
  if (!begin.has_payload_bytes_max() ||
      begin.payload_bytes_max() > static_cast<uint64_t>(kPayloadMax)) {
    return MustBe(
        "begin.payload_bytes_max",
        begin.has_payload_bytes_max() ? absl::StrCat(begin.payload_bytes_max()) : "absent",
        absl::StrCat("0 .. ", kPayloadMax));
  }
  return UploadReservation{.rows_max = static_cast<int64_t>(begin.rows_max()),
                           .payload_bytes_max = static_cast<int64_t>(begin.payload_bytes_max()),
                           .mode = mode,
                           .zero_rows_refused = begin.zero_rows() != pb::ZERO_ROWS_ACCEPT};
}

absl::StatusOr<int64_t> FromProto(const pb::ListUploadsRequest& request) {
  if (!request.has_uploads_max()) return kListedUploadsDefault;
  const int64_t uploads_max = request.uploads_max();
  ABSL_RETURN_IF_ERROR(CheckRange("uploads_max", uploads_max, 1, kListedUploadsMax));
  return uploads_max;
}

void ToProto(const Catalog::ListedUpload& listed, pb::OpenUpload* upload) {
  const store::OpenUpload& open_upload = listed.upload;
  upload->set_upload_token(open_upload.token);
  upload->set_collection(listed.collection);
  upload->set_mode(ProtoIn(kUploadModes, open_upload.mode));
  upload->set_rows_count(static_cast<uint64_t>(open_upload.rows_count));
  upload->set_bytes_on_disk(static_cast<uint64_t>(open_upload.bytes_on_disk));
  upload->set_untouched_s(static_cast<uint64_t>(open_upload.untouched_s));
  upload->set_is_live(open_upload.is_live);
}

absl::StatusOr<BlockRows> FromProto(const pb::UploadBlock& block, const CollectionSpec& spec,
                                    const RequestLimits& limits, UploadTotals* totals) {
  const auto block_bytes = static_cast<int64_t>(block.ByteSizeLong());
  if (block_bytes > limits.upload_block_bytes_max) {
    return ArgumentError("block",
                         absl::StrCat(block_bytes, " bytes, the limit upload_block_bytes_max is ",
                                      limits.upload_block_bytes_max),
                         absl::StrCat(block_bytes, " bytes"),
                         absl::StrCat(limits.upload_block_bytes_max));
  }
  const int64_t rows_left = totals->declared.rows_max - totals->rows;
  BlockRows native;
  ABSL_ASSIGN_OR_RETURN(native.ids,
                        IdsFromProto("block.ids", block.ids(), spec.id_type,
                                     {.min = 1, .max = std::numeric_limits<int64_t>::max()}));
  const int64_t rows = native.ids.size();
  if (rows > rows_left) {
    return ArgumentError("block.ids",
                         absl::StrCat(rows, " rows after ", totals->rows,
                                      ", begin.rows_max declared ", totals->declared.rows_max),
                         absl::StrCat(totals->rows + rows),
                         absl::StrCat(totals->declared.rows_max));
  }
  ABSL_RETURN_IF_ERROR(CheckVectors(block.vectors(), spec, rows));
  ABSL_ASSIGN_OR_RETURN(native.payloads, PayloadsFromProto(block, rows, limits.payload_bytes_max));
  const int64_t payload_bytes = native.payloads.value_bytes();
  if (payload_bytes > totals->declared.payload_bytes_max - totals->payload_bytes) {
    return ArgumentError(
        "block.payloads",
        absl::StrCat(payload_bytes, " bytes after ", totals->payload_bytes,
                     ", begin.payload_bytes_max declared ", totals->declared.payload_bytes_max),
        absl::StrCat(totals->payload_bytes + payload_bytes, " bytes"),
        absl::StrCat(totals->declared.payload_bytes_max));
  }
  const std::string& data = block.vectors().data();
  native.rows = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(data.data()), data.size());
  totals->rows += rows;
  totals->payload_bytes += payload_bytes;
  totals->bytes += block_bytes;
  return native;
}

absl::Status CheckCommit(const pb::UploadCommit& commit, const UploadTotals& totals) {
  if (!commit.has_rows_count() || commit.rows_count() == static_cast<uint64_t>(totals.rows)) {
    return absl::OkStatus();
  }
  return ArgumentError("commit.rows_count",
                       absl::StrCat(commit.rows_count(), ", the upload has ", totals.rows, " rows"),
                       absl::StrCat(commit.rows_count()), absl::StrCat(totals.rows));
}

namespace {

template <typename Request>
absl::Status CheckOne(const Request& request) {
  const int64_t ids = int64_t{request.ids().numbers_size()} + request.ids().texts_size();
  if (ids > 0 && FilterOf(request).given()) {
    return ArgumentError(FilterFields().text,
                         absl::StrCat("given with ", ids, " ids, must be one of the two"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOneOfIdsAndFilter(const pb::DeleteRequest& request) { return CheckOne(request); }
absl::Status CheckOneOfIdsAndFilter(const pb::UpdateRequest& request) { return CheckOne(request); }

absl::StatusOr<IdColumn> FromProto(const pb::DeleteRequest& request, const CollectionSpec& spec,
                                   const RequestLimits& limits) {
  return IdsFromProto("ids", request.ids(), spec.id_type, {.min = 1, .max = limits.fetch_ids_max});
}

}  // namespace nearfield::server

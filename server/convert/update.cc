#include "server/convert/update.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/attributes/limits.h"
#include "server/convert/attributes.h"
#include "server/convert/common.h"
#include "server/convert/ingest.h"

namespace nearfield::server {
namespace {

absl::Status CheckDistinct(const IdColumn& ids) {
  std::vector<int64_t> order(static_cast<size_t>(ids.size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&ids](int64_t a, int64_t b) { return ids.Compare(a, ids, b) < 0; });
  const auto twice = std::adjacent_find(order.begin(), order.end(), [&ids](int64_t a, int64_t b) {
    return ids.Compare(a, ids, b) == 0;
  });
  if (twice == order.end()) return absl::OkStatus();
  const std::string id = QuoteId(ids, *twice);
  return ArgumentError("ids", absl::StrCat("id ", id, " is given twice, must be given once"), id,
                       "once");
}

absl::StatusOr<std::vector<const std::string*>> PayloadsFromProto(const pb::PayloadUpdate& update,
                                                                  int64_t rows, int64_t bytes_max) {
  if (update.payloads_size() != rows) {
    return MustBe("payloads.payloads", absl::StrCat(update.payloads_size()), absl::StrCat(rows));
  }
  ABSL_ASSIGN_OR_RETURN(
      const std::vector<bool> changed,
      BitsFromProto("payloads.changed", update.has_changed() ? &update.changed() : nullptr, rows));
  std::vector<const std::string*> payloads;
  for (int i = 0; i < update.payloads_size(); ++i) {
    const std::string& payload = update.payloads(i);
    const std::string field = absl::StrCat("payloads.payloads[", i, "]");
    if (static_cast<int64_t>(payload.size()) > bytes_max) {
      return MustBe(field, absl::StrCat(payload.size(), " bytes"),
                    absl::StrCat("at most ", bytes_max));
    }
    const bool changes = changed[static_cast<size_t>(i)];
    if (!changes && !payload.empty()) {
      return ArgumentError(field,
                           "given, but payloads.changed says that the row keeps its payload");
    }
    payloads.push_back(changes ? &payload : nullptr);
  }
  return payloads;
}

absl::StatusOr<AttributeChange> ChangeFromProto(const std::string& field,
                                                const pb::AttributeUpdate& update,
                                                const AttributeSchema& schema, int64_t rows) {
  AttributeChange change;
  ABSL_ASSIGN_OR_RETURN(change.attribute, AttributeFromProto(field + ".column.attribute",
                                                             update.column().attribute(), schema));
  ABSL_ASSIGN_OR_RETURN(
      change.changed,
      BitsFromProto(field + ".changed", update.has_changed() ? &update.changed() : nullptr, rows));
  ABSL_ASSIGN_OR_RETURN(change.column,
                        ColumnFromProto(field + ".column", update.column(),
                                        schema.at(change.attribute), rows, AttributeLimits()));
  for (size_t row = 0; row < change.changed.size(); ++row) {
    if (change.changed[row] || !change.column.present[row]) continue;
    return ArgumentError(
        field + ".column",
        absl::StrCat("row ", row, " has a value, but `changed` says that it keeps its own"));
  }
  return change;
}

absl::StatusOr<std::vector<AttributeChange>> ChangesFromProto(
    const google::protobuf::RepeatedPtrField<pb::AttributeUpdate>& updates,
    const AttributeSchema& schema, int64_t rows) {
  std::vector<AttributeChange> changes;
  std::vector<bool> seen(static_cast<size_t>(schema.size()), false);
  for (int i = 0; i < updates.size(); ++i) {
    const std::string field = absl::StrCat("attributes[", i, "]");
    ABSL_ASSIGN_OR_RETURN(AttributeChange change, ChangeFromProto(field, updates[i], schema, rows));
    const auto place = static_cast<size_t>(change.attribute);
    if (seen[place]) {
      const std::string name = QuoteText(schema.at(change.attribute).name);
      return ArgumentError(field + ".column.attribute",
                           absl::StrCat(name, " is given twice, must be given once"), name, "once");
    }
    seen[place] = true;
    changes.push_back(std::move(change));
  }
  return changes;
}

}  // namespace

GivenFilter ConditionOf(const pb::UpdateRequest& request) {
  return {.text = request.has_if_filter_text() ? &request.if_filter_text() : nullptr,
          .arguments = &request.if_filter_args(),
          .fields = {.text = "if_filter_text", .arguments = "if_filter_args"}};
}

absl::StatusOr<RowUpdate> FromProto(const std::shared_ptr<const pb::UpdateRequest>& request,
                                    const CollectionSpec& spec, const AttributeSchema& schema,
                                    const RequestLimits& limits) {
  RowUpdate update;
  update.request = request;
  update.ids = IdColumn(spec.id_type);
  int64_t rows = 1;
  if (FilterOf(*request).given()) {
    if (ConditionOf(*request).given()) {
      return ArgumentError("if_filter_text",
                           "given with filter_text: join the two with \"and\" in filter_text");
    }
    ABSL_RETURN_IF_ERROR(CheckOneOfIdsAndFilter(*request));
  } else {
    ABSL_ASSIGN_OR_RETURN(update.ids, IdsFromProto("ids", request->ids(), spec.id_type,
                                                   {.min = 1, .max = limits.fetch_ids_max}));
    ABSL_RETURN_IF_ERROR(CheckDistinct(update.ids));
    rows = update.ids.size();
  }
  if (request->attributes().empty() && !request->has_payloads()) {
    return ArgumentError("attributes",
                         "neither attributes nor payloads are given: nothing changes");
  }
  ABSL_ASSIGN_OR_RETURN(update.attributes, ChangesFromProto(request->attributes(), schema, rows));
  if (request->has_payloads()) {
    ABSL_ASSIGN_OR_RETURN(update.payloads,
                          PayloadsFromProto(request->payloads(), rows, limits.payload_bytes_max));
  }
  if (request->has_if_epoch()) update.if_epoch = request->if_epoch();
  if (request->has_update_token() &&
      (request->update_token().empty() ||
       request->update_token().size() > static_cast<size_t>(kUploadTokenBytesMax))) {
    return MustBe("update_token", absl::StrCat(request->update_token().size(), " bytes"),
                  absl::StrCat("1 .. ", kUploadTokenBytesMax));
  }
  update.token = request->update_token();
  return update;
}

int64_t UpdateMemoryMax(const pb::UpdateRequest& request) {
  // An id, a value and the size of a list may take one byte in the request.
  constexpr int64_t kBytesPerItem = 16;
  int64_t items = int64_t{request.ids().numbers_size()} + request.ids().texts_size() +
                  request.payloads().payloads_size();
  for (const pb::AttributeUpdate& update : request.attributes()) {
    items += ValuesCount(update.column().values()) + update.column().list_sizes_size();
  }
  return static_cast<int64_t>(request.ByteSizeLong()) + items * kBytesPerItem;
}

void ToProto(const UpdateReply& reply, pb::UpdateResponse* response) {
  response->set_epoch(reply.epoch);
  response->set_rows_updated(static_cast<uint64_t>(reply.rows_updated));
  if (!reply.missing.empty()) IdsToProto(reply.missing, response->mutable_missing());
  if (!reply.refused.empty()) IdsToProto(reply.refused, response->mutable_refused());
}

}  // namespace nearfield::server

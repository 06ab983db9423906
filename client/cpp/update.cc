#include "nearfield/client/update.h"

#include <utility>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

absl::Status CheckChanged(std::string_view field, const std::vector<bool>& changed, size_t rows) {
  if (changed.empty() || changed.size() == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(field, ": ", changed.size(), " bits for ", rows, " rows"));
}

// Converts columns of `rows` entries.
absl::Status AddChanges(const RowUpdate& update, size_t rows, v1::UpdateRequest* request) {
  for (size_t i = 0; i < update.attributes.size(); ++i) {
    const auto& [column, changed] = update.attributes[i];
    const std::string field = Cat("attributes[", i, "]");
    NF_RETURN_IF_ERROR(CheckText(field, column));
    const std::string name = Cat(field, " (", column.attribute, ")");
    NF_RETURN_IF_ERROR(CheckColumn(column, name, rows));
    NF_RETURN_IF_ERROR(CheckChanged(Cat(name, ": changed"), changed, rows));
    const ColumnPlace begin(column);
    ColumnPlace end = begin;
    for (size_t row = 0; row < rows; ++row) end.Advance();
    v1::AttributeUpdate* proto = request->add_attributes();
    ToProto(begin, end, proto->mutable_column());
    if (!changed.empty()) proto->set_changed(Bitmap(changed, 0, rows));
  }
  const size_t payloads = update.payloads.size();
  if (payloads > 0 && payloads != rows) {
    return absl::InvalidArgumentError(
        Cat("payloads: ", payloads, " for ", rows, " rows; give none, or one a row"));
  }
  NF_RETURN_IF_ERROR(CheckChanged("payloads_changed", update.payloads_changed, payloads));
  for (const std::string& payload : update.payloads) {
    request->mutable_payloads()->add_payloads(payload);
  }
  if (!update.payloads_changed.empty()) {
    request->mutable_payloads()->set_changed(Bitmap(update.payloads_changed, 0, payloads));
  }
  return absl::OkStatus();
}

absl::Status AddConditions(const RowUpdate& update, v1::UpdateRequest* request) {
  if (update.if_filter) {
    NF_RETURN_IF_ERROR(ToProto("if_", *update.if_filter, request->mutable_if_filter_text(),
                               request->mutable_if_filter_args()));
  }
  if (update.if_epoch) request->set_if_epoch(*update.if_epoch);
  if (update.incarnation) request->set_incarnation(*update.incarnation);
  if (!update.token.empty()) request->set_update_token(update.token);
  return absl::OkStatus();
}

absl::StatusOr<UpdateAnswer> FromProto(v1::UpdateResponse* proto) {
  UpdateAnswer answer = {.epoch = proto->epoch(),
                         .incarnation = proto->incarnation(),
                         .rows_updated = proto->rows_updated()};
  NF_ASSIGN_OR_RETURN(answer.missing, TakeIds(proto->mutable_missing()));
  NF_ASSIGN_OR_RETURN(answer.refused, TakeIds(proto->mutable_refused()));
  return answer;
}

// Sends a request that has all but the collection. Only a call with a token is repeated: another
// caller may have changed the rows since.
absl::StatusOr<UpdateAnswer> SendUpdate(std::string_view collection, v1::UpdateRequest* request,
                                        const CallOptions& options, Client::Core& core) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  request->set_collection(std::string(collection));
  Client::Core::CallSpec spec = core.SpecFrom(options.deadline);
  NF_RETURN_IF_ERROR(core.CheckRequestBytes(request->ByteSizeLong(), spec));
  spec.idempotent = request->has_update_token();
  NF_ASSIGN_OR_RETURN(auto response, core.Call(&IngestStub::Update, *request, spec));
  return FromProto(&response);
}

}  // namespace

absl::StatusOr<UpdateAnswer> Client::Update(std::string_view collection, const IdColumn& ids,
                                            const RowUpdate& update, const CallOptions& options) {
  v1::UpdateRequest request;
  NF_RETURN_IF_ERROR(CheckText("ids", ids));
  ToProto(ids, 0, client::Count(ids), request.mutable_ids());
  NF_RETURN_IF_ERROR(AddChanges(update, client::Count(ids), &request));
  NF_RETURN_IF_ERROR(AddConditions(update, &request));
  return SendUpdate(collection, &request, options, *core_);
}

absl::StatusOr<UpdateAnswer> Client::Update(std::string_view collection, const Filter& filter,
                                            const RowUpdate& update, const CallOptions& options) {
  v1::UpdateRequest request;
  NF_RETURN_IF_ERROR(SetFilter(filter, &request));
  if (const absl::Status fits = AddChanges(update, 1, &request); !fits.ok()) {
    return absl::InvalidArgumentError(
        Cat(fits.message(), "; with a filter, each column has one entry, for all rows"));
  }
  NF_RETURN_IF_ERROR(AddConditions(update, &request));
  return SendUpdate(collection, &request, options, *core_);
}

}  // namespace nearfield::client

#include "nearfield/client/facets.h"

#include <utility>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/term_convert.h"
#include "client/cpp/text.h"
#include "nearfield/client/client.h"

namespace nearfield::client {
namespace {

absl::StatusOr<Facet> TakeFacet(v1::Facet* proto) {
  Facet facet = {.attribute = std::move(*proto->mutable_attribute()),
                 .values = TakeValues(proto->mutable_values()),
                 .rows_counts = {proto->rows_counts().begin(), proto->rows_counts().end()},
                 .values_count = proto->values_count(),
                 .rows_missing = proto->rows_missing()};
  if (Count(facet.values) == facet.rows_counts.size()) return facet;
  return absl::InternalError(Cat("malformed reply: ", facet.rows_counts.size(), " counts for ",
                                 Count(facet.values), " values of the attribute \"",
                                 facet.attribute, "\""));
}

}  // namespace

absl::StatusOr<FacetsAnswer> Client::Facets(std::string_view collection,
                                            std::span<const std::string> attributes,
                                            const FacetsOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  v1::FacetsRequest request;
  request.set_collection(std::string(collection));
  NF_RETURN_IF_ERROR(AddNames(attributes, request.mutable_attributes()));
  request.set_values_max(options.values_max);
  NF_RETURN_IF_ERROR(SetFilter(options.filter, &request));
  NF_RETURN_IF_ERROR(SetTerms(options.terms, &request));
  if (options.query) {
    NF_RETURN_IF_ERROR(CheckText(collection, {&*options.query, 1}));
    ToProto(*options.query, request.mutable_query());
  }
  if (options.score_threshold) request.set_score_threshold(*options.score_threshold);
  if (options.priority == SearchPriority::kBatch) {
    request.set_priority(v1::SEARCH_PRIORITY_BATCH);
  }
  if (options.min_epoch) request.set_min_epoch(*options.min_epoch);
  if (options.at_epoch) request.set_at_epoch(*options.at_epoch);
  if (options.incarnation) request.set_incarnation(*options.incarnation);
  const Core::CallSpec spec = core_->SpecFrom(options.deadline);
  NF_RETURN_IF_ERROR(core_->CheckRequestBytes(request.ByteSizeLong(), spec));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&RetrievalStub::Facets, request, spec));
  FacetsAnswer answer = {.epoch = response.epoch(),
                         .incarnation = response.incarnation(),
                         .rows_count = response.rows_count(),
                         .facets = {}};
  for (v1::Facet& proto : *response.mutable_facets()) {
    NF_ASSIGN_OR_RETURN(Facet facet, TakeFacet(&proto));
    answer.facets.push_back(std::move(facet));
  }
  return answer;
}

}  // namespace nearfield::client

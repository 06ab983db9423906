#include "server/rpc/choose_rows.h"

#include <cstdint>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/base/status_macros.h"
#include "server/convert/terms.h"

namespace nearfield::server {
namespace {

absl::StatusOr<ByteAccount::Hold> HoldOf(const Call& call, int64_t bytes) {
  return call.state()->ledger().requests.Reserve(call.caller(), bytes);
}

}  // namespace

absl::StatusOr<Filter> HeldFilter(const NamedCollection& named, const AttributeSchema& schema,
                                  const GivenFilter& given, ByteAccount::Hold* hold) {
  const int64_t before = hold->bytes();
  ABSL_RETURN_IF_ERROR(hold->Grow(before + FilterMemoryMax(given)));
  absl::StatusOr<Filter> filter = FromProto(given, named.collection->spec().id_type, schema);
  hold->Resize(before + (filter.ok() ? filter->bytes() : 0));
  return filter;
}

absl::StatusOr<TermList> HeldTerms(const NamedCollection& named, const AttributeSchema& schema,
                                   const pb::RowTerms& terms, ByteAccount::Hold* hold) {
  const int64_t before = hold->bytes();
  ABSL_RETURN_IF_ERROR(hold->Grow(before + TermsMemoryMax(terms)));
  absl::StatusOr<TermList> list = FromProto(terms, named.collection->spec().id_type, schema);
  hold->Resize(before + (list.ok() ? list->bytes() : 0));
  return list;
}

absl::Status CheckFilter(const NamedCollection& named, std::optional<uint64_t> epoch,
                         const GivenFilter& given, const Call& call) {
  ABSL_ASSIGN_OR_RETURN(ByteAccount::Hold hold, HoldOf(call, 0));
  return HeldFilter(named, *named.attributes->SchemaAt(epoch), given, &hold).status();
}

absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const Filter& filter,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call) {
  if (at == nullptr) at = named.collection->PinEpoch();
  ABSL_ASSIGN_OR_RETURN(call.holds.request, HoldOf(call, (at->rows_count() + 7) / 8));
  absl::StatusOr<ChosenRows> chosen = named.attributes->Choose(
      *named.collection, filter, std::move(at), [&call] { return call.Dead(); });
  if (absl::IsCancelled(chosen.status())) ABSL_RETURN_IF_ERROR(call.DeadStatus());
  return chosen;
}

absl::StatusOr<std::shared_ptr<const RowTerms>> BindTerms(
    const NamedCollection& named, const TermList& terms,
    const std::shared_ptr<const PinnedEpoch>& at, const Call& call, ByteAccount::Hold* hold) {
  const int64_t filters = absl::c_count_if(
      terms.terms(), [](const TermList::Term& term) { return term.filter.has_value(); });
  ABSL_RETURN_IF_ERROR(hold->Grow(hold->bytes() + filters * ((at->rows_count() + 7) / 8)));
  absl::StatusOr<std::shared_ptr<const RowTerms>> bound =
      named.attributes->Bind(*named.collection, terms, at, [&call] { return call.Dead(); });
  if (absl::IsCancelled(bound.status())) ABSL_RETURN_IF_ERROR(call.DeadStatus());
  return bound;
}

absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const GivenFilter& given,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call) {
  ABSL_ASSIGN_OR_RETURN(ByteAccount::Hold hold, HoldOf(call, 0));
  if (at == nullptr) at = named.collection->PinEpoch();
  const auto schema = named.attributes->SchemaAt(at->epoch());
  ABSL_ASSIGN_OR_RETURN(const Filter filter, HeldFilter(named, *schema, given, &hold));
  return ChooseRows(named, filter, std::move(at), call);
}

}  // namespace nearfield::server

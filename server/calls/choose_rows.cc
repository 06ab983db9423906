#include "server/calls/choose_rows.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/convert/filter.h"

namespace nearfield::server {

absl::Status CheckFilter(const NamedCollection& named, const pb::Filter& filter) {
  return ValidFilterFromProto(filter, named.collection->spec().id_type, named.attributes->schema())
      .status();
}

absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const Filter& filter,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call) {
  if (at == nullptr) at = named.collection->PinEpoch();
  const int64_t bits_bytes = (at->rows_count() + 7) / 8;
  ABSL_ASSIGN_OR_RETURN(call.holds.request,
                        call.state()->ledger().requests.Reserve(call.caller(), bits_bytes));
  absl::StatusOr<ChosenRows> chosen = named.attributes->Choose(
      *named.collection, filter, std::move(at), [&call] { return call.Dead(); });
  if (absl::IsCancelled(chosen.status())) ABSL_RETURN_IF_ERROR(call.DeadStatus());
  return chosen;
}

absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const pb::Filter& filter,
                                      Call& call) {
  ABSL_ASSIGN_OR_RETURN(
      const Filter valid,
      ValidFilterFromProto(filter, named.collection->spec().id_type, named.attributes->schema()));
  return ChooseRows(named, valid, nullptr, call);
}

}  // namespace nearfield::server

// Checks the filter and the row terms of a request, and evaluates them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/v1/terms.pb.h"
#include "server/attributes/filter.h"
#include "server/attributes/term_list.h"
#include "server/collections/catalog.h"
#include "server/convert/filter.h"
#include "server/rpc/call.h"
#include "server/scheduler/memory_ledger.h"

namespace nearfield::server {

// Returns the filter of a request over the attributes of `schema`, and adds its memory to `hold`,
// which holds bytes of the ledger's requests. Requires: given.given(). Errors: InvalidArgument (the
// filter), ResourceExhausted (requests_bytes_max); then `hold` is as before.
absl::StatusOr<Filter> HeldFilter(const NamedCollection& named, const AttributeSchema& schema,
                                  const GivenFilter& given, ByteAccount::Hold* hold);

// As HeldFilter, for the terms of a request.
absl::StatusOr<TermList> HeldTerms(const NamedCollection& named, const AttributeSchema& schema,
                                   const pb::RowTerms& terms, ByteAccount::Hold* hold);

// Checks a filter over the attributes at `epoch` (absent: now). Requires: given.given(). Errors: as
// HeldFilter.
absl::Status CheckFilter(const NamedCollection& named, std::optional<uint64_t> epoch,
                         const GivenFilter& given, const Call& call);

// Returns the rows that pass at `at` (null: the collection's current state). Reserves one bit for
// each row with the call's request. Errors: Cancelled, ResourceExhausted (requests_bytes_max).
absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const Filter& filter,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call);

// As above, for the filter of a request. Requires: given.given(). Errors: also those of HeldFilter.
absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const GivenFilter& given,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call);

// Returns the terms of a search at `at`. Reserves one bit for each row and filter of the terms with
// `hold`, which holds bytes of the ledger's requests. Errors: as CollectionAttributes::Bind;
// ResourceExhausted (requests_bytes_max).
absl::StatusOr<std::shared_ptr<const RowTerms>> BindTerms(
    const NamedCollection& named, const TermList& terms,
    const std::shared_ptr<const PinnedEpoch>& at, const Call& call, ByteAccount::Hold* hold);

}  // namespace nearfield::server

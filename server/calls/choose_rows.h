// Evaluates the filter of a request to the rows that pass it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/calls/call.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Checks a filter. Errors: InvalidArgument (the filter).
absl::Status CheckFilter(const NamedCollection& named, const nearfield::v1::Filter& filter);

// Returns the rows that pass at `at` (null: the collection's current state). Reserves one bit for
// each row with the call's request. Errors: Cancelled, ResourceExhausted (requests_bytes_max).
absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named, const Filter& filter,
                                      std::shared_ptr<const PinnedEpoch> at, Call& call);

// As above, for a filter that was not checked, in the current state. Errors: also InvalidArgument
// (the filter).
absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named,
                                      const nearfield::v1::Filter& filter, Call& call);

}  // namespace nearfield::server

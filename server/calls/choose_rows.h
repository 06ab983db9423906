// Evaluates the filter of a request to the rows that pass it.
#pragma once

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/calls/call.h"
#include "server/collections/catalog.h"

namespace nearfield::server {

// Checks a filter. Errors: InvalidArgument (the filter).
absl::Status CheckFilter(const NamedCollection& named, const nearfield::v1::Filter& filter);

// Returns the rows that pass in the collection's current state. Reserves one bit for each row with
// the call's request. Errors: InvalidArgument (the filter), Cancelled, ResourceExhausted
// (requests_bytes_max).
absl::StatusOr<ChosenRows> ChooseRows(const NamedCollection& named,
                                      const nearfield::v1::Filter& filter, Call& call);

}  // namespace nearfield::server

// Conversion from proto to native types for filters.
#pragma once

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/attributes/filter.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"
#include "server/convert/common.h"

namespace nearfield::server {

// Returns the tree as it was sent. ValidateFilter() checks it against the schema. Uses no
// recursion, and stops at the limits on levels, conditions and values for any message.
// Errors: InvalidArgument, with the path of the condition.
absl::StatusOr<FilterTree> FromProto(const pb::Filter& filter, IdType id_type,
                                     const AttributeLimits& limits);

// As FromProto, and checks the filter against the schema. The result can be evaluated.
absl::StatusOr<Filter> ValidFilterFromProto(const pb::Filter& filter, IdType id_type,
                                            const AttributeSchema& schema);

}  // namespace nearfield::server

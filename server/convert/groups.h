// Conversion of the groups of a search.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/found_groups.h"
#include "server/attributes/schema.h"
#include "server/convert/common.h"
#include "server/convert/limits.h"

namespace nearfield::server {

// Returns the groups that the request asks for; nullopt if it asks for rows. `k`: its number of
// groups. Errors: InvalidArgument (not declared, a list, or too many rows).
absl::StatusOr<std::optional<Grouping>> GroupingFromProto(const pb::SearchRequest& request,
                                                          const AttributeSchema& schema, int32_t k,
                                                          const RequestLimits& limits);

void ToProto(const GroupColumn& groups, pb::GroupColumn* message);

}  // namespace nearfield::server

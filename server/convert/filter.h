// Proto -> native for filters.
#ifndef NEARFIELD_SERVER_CONVERT_FILTER_H_
#define NEARFIELD_SERVER_CONVERT_FILTER_H_

#include "absl/status/statusor.h"
#include "nearfield/v1/common.pb.h"
#include "server/catalog/attributes/filter.h"
#include "server/catalog/attributes/filter_tree.h"
#include "server/catalog/attributes/limits.h"
#include "server/catalog/attributes/schema.h"
#include "server/convert/common.h"

namespace nearfield::server {

// The tree as it was sent, for ValidateFilter(), which checks it against the schema. Works without
// recursion, and no further than the limits on levels, conditions and values allow, whatever the
// message is. Errors: InvalidArgument, with the path of the condition.
absl::StatusOr<FilterTree> FromProto(const pb::Filter& filter, IdType id_type,
                                     const AttributeLimits& limits);

// The same, checked against the schema: ready to be evaluated.
absl::StatusOr<Filter> ValidFilterFromProto(const pb::Filter& filter, IdType id_type,
                                            const AttributeSchema& schema);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONVERT_FILTER_H_

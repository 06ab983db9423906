// Conversion between proto and native types for Ingest.Update.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/collection.h"
#include "nearfield/v1/ingest.pb.h"
#include "server/attributes/schema.h"
#include "server/collections/update_queue.h"
#include "server/convert/filter.h"
#include "server/convert/limits.h"

namespace nearfield::server {

// Returns the condition of the request.
GivenFilter ConditionOf(const pb::UpdateRequest& request);

// Returns the update without its filters and functions. It holds the request. Errors:
// InvalidArgument.
absl::StatusOr<RowUpdate> FromProto(const std::shared_ptr<const pb::UpdateRequest>& request,
                                    const CollectionSpec& spec, const AttributeSchema& schema,
                                    const RequestLimits& limits);

// Returns an upper bound on the memory that FromProto takes in addition to the request.
int64_t UpdateMemoryMax(const pb::UpdateRequest& request);

void ToProto(const UpdateReply& reply, pb::UpdateResponse* response);

}  // namespace nearfield::server

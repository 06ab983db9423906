// Unpack: the neighbors of a reply as fields of bytes.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"
#include "nearfield/v1/retrieval.pb.h"

namespace nearfield::client {

// Returns the neighbors of each query. Errors: Internal (the sizes do not fit).
absl::StatusOr<std::vector<Neighbors>> Unpack(const v1::PackedResults& packed);

}  // namespace nearfield::client

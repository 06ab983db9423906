// The score of the result contract, implemented independently of the server. A replay compares a
// server's scores with it.
#pragma once

#include <span>

#include "nearfield/client/types.h"

namespace nearfield::client {

// Returns the score as defined in proto/nearfield/v1/retrieval.proto, "Score", to the bit.
// Requires: finite values, query and row of the same length.
float CanonicalScore(Metric metric, std::span<const float> query, std::span<const float> row);

}  // namespace nearfield::client

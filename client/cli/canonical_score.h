// The score of the result contract, computed once more: what a replay holds a server's scores
// against.
#ifndef NEARFIELD_CLIENT_CLI_CANONICAL_SCORE_H_
#define NEARFIELD_CLIENT_CLI_CANONICAL_SCORE_H_

#include <span>

#include "nearfield/client/types.h"

namespace nearfield::client {

// "Score" in proto/nearfield/v1/retrieval.proto, to the bit. Finite values, as many of both.
float CanonicalScore(Metric metric, std::span<const float> query, std::span<const float> row);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_CANONICAL_SCORE_H_

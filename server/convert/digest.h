// ResultDigest: the digest of an answer, as the API contract defines it.
#pragma once

#include <string>

#include "nearfield/v1/retrieval.pb.h"

namespace nearfield::server {

// Returns the 32 bytes of SearchResponse.result_digest for these results: "Digest" in
// retrieval.proto.
// Cost: one SHA-256 pass over 12 bytes for each neighbor (number ids): 0.4 us for one query with k
// = 10, 0.7 ms for 1,024 queries with k = 100, on a processor with SHA instructions.
std::string ResultDigest(const nearfield::v1::SearchResponse& response);

}  // namespace nearfield::server

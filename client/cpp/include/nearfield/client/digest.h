// The digest of an answer. Any client can compute it.
#pragma once

#include <span>
#include <string>

#include "nearfield/client/replies.h"

namespace nearfield::client {

// Returns the SHA-256 of the ids, score bits and groups of these results: 32 bytes, as defined in
// proto/nearfield/v1/retrieval.proto, "Digest".
std::string ResultDigest(std::span<const Neighbors> results);

}  // namespace nearfield::client

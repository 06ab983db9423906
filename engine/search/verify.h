// VerifyClaim: checks an answer against the oracle.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "engine/corpus/corpus.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// As Engine::Verify. `staging_bytes`: maximum bytes of rows that are held on the host at a time,
// but at least one row; the answer does not depend on it.
absl::StatusOr<VerifyResult> VerifyClaim(const corpus::Corpus& corpus, const Claim& claim,
                                         int32_t k_max, int64_t staging_bytes,
                                         const std::function<bool()>& cancelled);

}  // namespace nearfield

// Self-test: the engine searches small generated corpora and compares the answers with the oracle,
// bit for bit.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// As Engine::SelfTest; uses only the public interface.
absl::Status RunSelfTest(Engine* engine, uint64_t seed);

}  // namespace nearfield

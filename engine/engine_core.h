// MakeEngine: the engine over a given backend. Engine::Create calls it with the backend that it
// chose, tests with a fake one.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// Creates an engine with k_max, batch_max and host_memory_bytes (0: the default) of `options`.
// `note` becomes EngineInfo::note. Errors: InvalidArgument (an option out of range; k_max
// not below that of the backend, which returns one row more for a query by id), FailedPrecondition
// (the arithmetic mode of this thread).
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(std::unique_ptr<backend::Backend> backend,
                                                   const EngineOptions& options, std::string note);

}  // namespace nearfield

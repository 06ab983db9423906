// The engine over any backend: what Engine::Create makes once it has chosen one, and what tests
// make over a fake.
#ifndef NEARFIELD_ENGINE_ENGINE_CORE_H_
#define NEARFIELD_ENGINE_ENGINE_CORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/corpus/backend.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// Takes k_max, batch_max and host_memory_bytes (0: the default) from `options`. `note` goes to
// EngineInfo::note. Errors: InvalidArgument (an option out of range, or a backend made for fewer
// neighbors), FailedPrecondition (the arithmetic mode of this thread).
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(std::unique_ptr<corpus::Backend> backend,
                                                   const EngineOptions& options, std::string note);

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_ENGINE_CORE_H_

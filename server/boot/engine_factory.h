// EngineFactory: creates the server's engine. Tests pass a factory of their own.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/config/memory_plan.h"
#include "server/config/settings.h"

namespace nearfield::server {

using EngineFactory = std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions&)>;

// Creates the engine with its share of the machine's memory. If a GPU was expected and the engine
// runs on the CPU, rows are in host memory. Then plans the memory again and creates the engine
// again, with its share of that plan.
// Errors: those of `make_engine`; InvalidArgument (the second plan exceeds the machine's memory).
absl::StatusOr<std::unique_ptr<Engine>> MakePlannedEngine(const Settings& settings,
                                                          HostMachine machine,
                                                          const EngineFactory& make_engine);

}  // namespace nearfield::server

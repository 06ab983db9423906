// How the server gets its engine; tests hand in a factory of their own.
#ifndef NEARFIELD_SERVER_ENGINE_FACTORY_H_
#define NEARFIELD_SERVER_ENGINE_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"
#include "server/config/memory_plan.h"
#include "server/config/settings.h"

namespace nearfield::server {

using EngineFactory = std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions&)>;

// Makes the engine with its share of the machine's memory. Where a GPU was expected and the engine
// runs on the CPU, rows lie in host memory: the memory is planned again, and the engine made again
// with the share of that plan.
// Errors: those of `make_engine`; InvalidArgument (the second plan exceeds the machine's memory).
absl::StatusOr<std::unique_ptr<Engine>> MakePlannedEngine(const Settings& settings,
                                                          HostMachine machine,
                                                          const EngineFactory& make_engine);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_ENGINE_FACTORY_H_

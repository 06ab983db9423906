// How the server gets its engine; tests hand in one that fails on purpose.
#ifndef NEARFIELD_SERVER_ENGINE_FACTORY_H_
#define NEARFIELD_SERVER_ENGINE_FACTORY_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "nearfield/engine/engine.h"

namespace nearfield::server {

using EngineFactory = std::function<absl::StatusOr<std::unique_ptr<Engine>>(const EngineOptions&)>;

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_ENGINE_FACTORY_H_

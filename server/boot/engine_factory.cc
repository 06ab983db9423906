#include "server/boot/engine_factory.h"

#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

EngineOptions EngineOptionsOf(const Settings& settings, const MemoryPlan& plan) {
  EngineOptions options = settings.ToEngineOptions();
  if (plan.memory_bytes > 0) options.memory_bytes = plan.memory_bytes;
  options.host_memory_bytes = plan.host_memory_bytes;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> MakePlannedEngine(const Settings& settings,
                                                          HostMachine machine,
                                                          const EngineFactory& make_engine) {
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                        make_engine(EngineOptionsOf(settings, PlanMemory(settings, machine))));
  const bool expected_gpu = machine.has_gpu && settings.backend.value() == "auto";
  if (!expected_gpu || engine->Info().backend == BackendKind::kGpu) return engine;
  machine.has_gpu = false;
  const MemoryPlan plan = PlanMemory(settings, machine);
  ABSL_RETURN_IF_ERROR(CheckFits(plan));
  engine.reset();
  return make_engine(EngineOptionsOf(settings, plan));
}

}  // namespace nearfield::server

// Engine::Create: chooses the backend.
#include "nearfield/engine/engine.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/cpu_topk_engine.h"
#include "engine/engine_core.h"
#include "engine/gpu/make_gpu_topk_engine.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "engine/options.h"

namespace nearfield {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> CreateOnGpu(const EngineOptions& options) {
  // One neighbor more than k_max, because a query by id drops its own row.
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> backend,
                        gpu::MakeGpuTopkEngine({.device = options.device,
                                                .memory_bytes = options.memory_bytes,
                                                .host_rows_bytes = options.host_rows_bytes,
                                                .k_max = options.k_max + 1,
                                                .batch_max = options.batch_max,
                                                .capability_max = options.gpu_capability_max}));
  return MakeEngine(std::move(backend), options,
                    absl::StrCat("GPU ", options.device, " is usable"));
}

absl::StatusOr<std::unique_ptr<Engine>> CreateOnCpu(const EngineOptions& options,
                                                    std::string note) {
  ABSL_RETURN_IF_ERROR(CheckCpuMemory(options));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<backend::Backend> backend,
                        cpu::MakeCpuTopkEngine({.memory_bytes = CpuMemoryBytes(options),
                                                .threads = options.threads,
                                                .k_max = options.k_max + 1,
                                                .batch_max = options.batch_max}));
  return MakeEngine(std::move(backend), options, std::move(note));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  if (options.backend == BackendChoice::kCpu) return CreateOnCpu(options, "the CPU was asked for");
  const absl::Status usable = gpu::ProbeGpu(options.device);
  if (usable.ok()) return CreateOnGpu(options);
  const std::string reason(usable.message());
  if (options.backend == BackendChoice::kGpu) {
    return absl::FailedPreconditionError(absl::StrCat("backend = gpu, but ", reason));
  }
  return CreateOnCpu(options, absl::StrCat("no usable GPU: ", reason));
}

}  // namespace nearfield

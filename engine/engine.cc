// Engine::Create: chooses the backend.
#include "nearfield/engine/engine.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/cpu/cpu_topk_engine.h"
#include "engine/cuda/probe_gpu.h"
#include "engine/engine_core.h"
#include "engine/gpu/make_gpu_topk_engine.h"
#include "engine/multi/multi_backend.h"
#include "engine/options.h"

namespace nearfield {
namespace {

// Returns the CUDA ordinals of the GPUs to use.
std::vector<int32_t> GpusOf(const EngineOptions& options) {
  if (options.devices.empty()) return {options.device};
  if (options.devices != std::vector<int32_t>{kAllDevices}) return options.devices;
  std::vector<int32_t> all(static_cast<size_t>(std::clamp(gpu::CountGpus(), 1, kDevicesMax)));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

absl::Status ProbeGpus(absl::Span<const int32_t> devices) {
  for (const int32_t device : devices) ABSL_RETURN_IF_ERROR(gpu::ProbeGpu(device));
  return absl::OkStatus();
}

// Joins the backends of several devices; returns that of a single one as it is.
std::unique_ptr<backend::Backend> Joined(std::vector<multi::NamedBackend> devices,
                                         const EngineOptions& options) {
  if (devices.size() == 1) return std::move(devices.front().backend);
  return multi::MakeMultiBackend(std::move(devices), options.spread);
}

absl::StatusOr<std::unique_ptr<Engine>> CreateOnGpus(const EngineOptions& options,
                                                     absl::Span<const int32_t> devices) {
  std::vector<multi::NamedBackend> backends;
  for (const int32_t device : devices) {
    multi::NamedBackend one = {.name = absl::StrCat("GPU ", device), .backend = nullptr};
    // One neighbor more than k_max, because a query by id drops its own row.
    ABSL_ASSIGN_OR_RETURN(one.backend, gpu::MakeGpuTopkEngine(
                                           {.device = device,
                                            .memory_bytes = options.memory_bytes,
                                            .host_rows_bytes = options.host_rows_bytes /
                                                               static_cast<int64_t>(devices.size()),
                                            .k_max = options.k_max + 1,
                                            .batch_max = options.batch_max,
                                            .capability_max = options.gpu_capability_max}));
    backends.push_back(std::move(one));
  }
  const std::string note = devices.size() == 1
                               ? absl::StrCat("GPU ", devices.front(), " is usable")
                               : absl::StrCat("GPUs ", absl::StrJoin(devices, ", "), " are usable");
  return MakeEngine(Joined(std::move(backends), options), options, note);
}

absl::StatusOr<std::unique_ptr<Engine>> CreateOnCpu(const EngineOptions& options,
                                                    std::string note) {
  ABSL_RETURN_IF_ERROR(CheckCpuMemory(options));
  const int32_t count = options.cpu_devices;
  const int32_t threads = options.threads > 0
                              ? options.threads
                              : static_cast<int32_t>(std::thread::hardware_concurrency());
  std::vector<multi::NamedBackend> backends;
  for (int32_t i = 0; i < count; ++i) {
    multi::NamedBackend one = {.name = absl::StrCat("CPU share ", i), .backend = nullptr};
    ABSL_ASSIGN_OR_RETURN(
        one.backend, cpu::MakeCpuTopkEngine(
                         {.memory_bytes = std::max<int64_t>(1, CpuMemoryBytes(options) / count),
                          .threads = count == 1 ? options.threads : std::max(1, threads / count),
                          .k_max = options.k_max + 1,
                          .batch_max = options.batch_max}));
    backends.push_back(std::move(one));
  }
  return MakeEngine(Joined(std::move(backends), options), options, std::move(note));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  ABSL_RETURN_IF_ERROR(CheckOptions(options));
  if (options.backend == BackendChoice::kCpu) return CreateOnCpu(options, "the CPU was asked for");
  const std::vector<int32_t> devices = GpusOf(options);
  const absl::Status usable = ProbeGpus(devices);
  if (usable.ok()) return CreateOnGpus(options, devices);
  const std::string reason(usable.message());
  if (options.backend == BackendChoice::kGpu) {
    return absl::FailedPreconditionError(absl::StrCat("backend = gpu, but ", reason));
  }
  return CreateOnCpu(options, absl::StrCat("no usable GPU: ", reason));
}

}  // namespace nearfield

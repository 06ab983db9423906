#include "tests/testing/engines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/cuda/probe_gpu.h"
#include "tests/testing/gpu_capability.h"

namespace nearfield::testing {
namespace {

absl::StatusOr<std::unique_ptr<Engine>> NewEngine(BackendKind kind, int32_t devices) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  std::vector<int32_t> gpus(static_cast<size_t>(devices));
  std::iota(gpus.begin(), gpus.end(), 0);
  return Engine::Create(
      {.backend = kind == BackendKind::kGpu ? BackendChoice::kGpu : BackendChoice::kCpu,
       .devices = gpus,
       .cpu_devices = devices,
       .spread = {.one_device_bytes = 2'000, .stripe_rows = 16},
       .memory_bytes = kGiB,
       .host_memory_bytes = kGiB,
       .host_rows_bytes = kGiB,
       .batch_max = 64,
       .gpu_capability_max = GpuCapabilityMax()});
}

// Owns the engines and destroys them before main() returns: CUDA is already shut down when static
// objects are destroyed.
struct SharedEngines : ::testing::Environment {
  void TearDown() override { engines.clear(); }
  std::map<std::pair<BackendKind, int32_t>, absl::StatusOr<std::unique_ptr<Engine>>> engines;
};
auto* const shared_engines = static_cast<SharedEngines*>(
    ::testing::AddGlobalTestEnvironment(new SharedEngines));  // GoogleTest owns it

}  // namespace

absl::Status Usable(BackendKind kind, int32_t devices) {
  return kind == BackendKind::kGpu ? gpu::ProbeGpu(devices - 1) : absl::OkStatus();
}

absl::StatusOr<Engine*> SharedEngine(BackendKind kind, int32_t devices) {
  auto& engines = shared_engines->engines;
  auto at = engines.find({kind, devices});
  if (at == engines.end()) {
    at = engines.emplace(std::pair(kind, devices), NewEngine(kind, devices)).first;
  }
  if (!at->second.ok()) return at->second.status();
  return at->second->get();
}

const char* Name(BackendKind kind) { return kind == BackendKind::kGpu ? "Gpu" : "Cpu"; }

std::string PayloadOf(const IdColumn& ids, int64_t index) {
  if (ids.type() == IdType::kString) {
    const std::string_view id = ids.string(index);
    return id.size() % 3 == 0 ? "" : absl::StrCat("payload of ", std::string(id));
  }
  const uint64_t id = ids.number(index);
  return id % 3 == 0 ? "" : std::string(static_cast<size_t>(id % 50), static_cast<char>(id % 251));
}

absl::StatusOr<CommitResult> UploadRows(Collection& collection, const Corpus& corpus,
                                        absl::Span<const int64_t> indices, int64_t block_rows) {
  const auto rows_count = static_cast<int64_t>(indices.size());
  int64_t payload_bytes = 0;
  for (const int64_t index : indices) {
    payload_bytes += static_cast<int64_t>(PayloadOf(corpus.ids, index).size());
  }
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                        collection.BeginUpload({.rows_max = std::max<int64_t>(rows_count, 1),
                                                .payload_bytes_max = payload_bytes}));
  for (int64_t begin = 0; begin < rows_count; begin += block_rows) {
    const auto size = static_cast<size_t>(std::min(block_rows, rows_count - begin));
    const Corpus block = Select(corpus, indices.subspan(static_cast<size_t>(begin), size));
    BytesColumn payloads;
    for (int64_t i = 0; i < block.rows_count(); ++i) payloads.Append(PayloadOf(block.ids, i));
    ABSL_RETURN_IF_ERROR(
        upload->Append({.ids = &block.ids, .rows = block.rows, .payloads = &payloads}));
  }
  return upload->Commit();
}

absl::StatusOr<std::shared_ptr<Collection>> MakeCollection(Engine& engine, const Corpus& corpus) {
  const std::vector<int64_t> all = AllIndices(corpus.rows_count());
  return MakeCollection(engine, corpus, absl::MakeConstSpan(&all, 1));
}

absl::StatusOr<std::shared_ptr<Collection>> MakeCollection(
    Engine& engine, const Corpus& corpus, absl::Span<const std::vector<int64_t>> parts) {
  ABSL_ASSIGN_OR_RETURN(std::shared_ptr<Collection> collection,
                        engine.CreateCollection(corpus.spec));
  for (const std::vector<int64_t>& part : parts) {
    ABSL_RETURN_IF_ERROR(UploadRows(*collection, corpus, part).status());
  }
  return collection;
}

}  // namespace nearfield::testing

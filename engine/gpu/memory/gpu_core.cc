#include "engine/gpu/memory/gpu_core.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/kernels/encode/encode.h"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/kernels/terms/term_sums.h"
#include "engine/gpu/memory/layout.h"
#include "engine/gpu/memory/read_rate.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
// Four buffers keep the host copy, the link and the layout kernel busy concurrently.
constexpr StagingRing::Shape kUploadRing = {.buffers_count = 4, .buffer_bytes = 8 * kMiB};
// Separate from the upload ring: reading rows back (a query by id) does not wait for an upload.
constexpr StagingRing::Shape kReadRing = {.buffers_count = 2, .buffer_bytes = 2 * kMiB};
constexpr int64_t kResultsPitchMax = RoundUp(kSelectKMax, plan::kKeysAlign);
// Keys that are returned together for the largest k: a full sub-tile in every generation.
// Lists of a scan of rows, or the answers of a batch with the largest k.
constexpr int64_t kLargeKQueries = 256;
constexpr int64_t kResultKeys =
    std::max<int64_t>(kScanPolicies.back().queries * kGenerationsMax * kResultsPitchMax,
                      kLargeKQueries*(kSelectKMax + kBatchTiesMin));
constexpr int64_t kListsMax = int64_t{kTileQueriesMax} * kGenerationsMax;
// A query block: vectors, S(q,q), k and places of a tile. The parts are 256-byte aligned.
constexpr int64_t kQueryBytes =
    kQueryElementsMax * 4 + kTileQueriesMax * int64_t{8 + 4 + sizeof(AnswerPlace)} + 4 * 256;
// Counts of lists, or outcomes of a batch.
constexpr int64_t kDeviceCountBytes =
    std::max(kListsMax * int64_t{sizeof(SelectCount)}, kOutcomeBytes);
constexpr int64_t kOneQueryBytes = int64_t{kSamplesMax} * 4 + int64_t{kCandidatesMax} * 8 +
                                   int64_t{sizeof(OneQueryState)} + 3 * 256;
// Left to the driver if the arena takes the free memory.
constexpr int64_t kDeviceReserve = 256 * kMiB;

// Returns the size of the key buffer: 1/64 of the rows' memory, which at 16 GiB holds the keys of
// 33 million rows. At 32 GiB and more it is 1/128: room for the 4-byte bounds of one row for every
// 512 bytes of row memory.
int64_t KeyBytes(int64_t rows_bytes) {
  const int64_t most = std::max(256 * kMiB, rows_bytes / 128);
  return RoundUp(std::clamp(rows_bytes / 64, 4 * kMiB, most), 256);
}

int64_t FixedWorkspaceBytes() {
  return kSelectGroupBytes + kSelectCandidateBytes + kQueryBytes + kOneQueryBytes +
         kBatchesMax * kBatchBytes + kQueryBlocks * kQueryBlockBytes + kResultKeys * 8 +
         kDeviceCountBytes + kUploadRing.buffers_count * kUploadRing.buffer_bytes +
         kReadRing.buffers_count * kReadRing.buffer_bytes + 16 * 256;
}

plan::EngineLimits EngineLimitsOf(int32_t k_max, int64_t key_bytes, bool scans_tiles) {
  plan::EngineLimits limits;
  for (const ScanPolicy& policy : kScanPolicies) {
    limits.variants.push_back({.queries = policy.queries, .blocks_per_sm = policy.blocks_per_sm});
  }
  if (scans_tiles) {
    limits.tile = {
        .queries = kScanTileQueries, .rows = kScanTileRows, .shared_bytes = kScanTileSharedBytes};
  }
  limits.scan_rows_per_block = kScanRows * (kScanThreads / kWarp);
  limits.keys_per_select_block = kSelectKeysPerBlock;
  limits.select_groups_max = kGroupsMax;
  limits.keys_max = key_bytes / 8;
  limits.result_keys_max = kResultKeys;
  limits.queries_max = kTileQueriesMax;
  limits.query_elements_max = kQueryElementsMax;
  limits.k_max = k_max;
  return limits;
}

struct SharedMemory {
  int64_t per_sm = 0;     // bytes
  int64_t per_block = 0;  // maximum bytes of a block
};

// Returns what every card of this compute capability has. Source: CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability".
SharedMemory LeastSharedMemory(int32_t capability) {
  constexpr int64_t kKiB = 1024;
  const auto of = [](int64_t per_sm) { return SharedMemory{per_sm, per_sm - kKiB}; };
  if (capability < 80) return {64 * kKiB, 64 * kKiB};
  if (capability == 80 || capability == 87) return of(164 * kKiB);
  if (capability < 90 || capability >= 120) return of(100 * kKiB);
  return of(228 * kKiB);
}

}  // namespace

absl::StatusOr<std::shared_ptr<GpuCore>> GpuCore::Create(const GpuOptions& options) {
  std::shared_ptr<GpuCore> core(new GpuCore(options.device));
  ABSL_RETURN_IF_ERROR(core->Init(options));
  return core;
}

GpuCore::~GpuCore() {
  // Waits until nothing writes to the pinned memory that is about to be freed. Errors are ignored:
  // the wait is also attempted on a lost device.
  if (cudaSetDevice(device_) == cudaSuccess) cudaDeviceSynchronize();
}

absl::Status GpuCore::Bind() {
  ABSL_RETURN_IF_ERROR(health_.status());
  return health_.Check(cudaSetDevice(device_), "cudaSetDevice");
}

absl::Status GpuCore::Init(const GpuOptions& options) {
  ABSL_RETURN_IF_ERROR(Bind());
  ABSL_RETURN_IF_ERROR(ReadDeviceProperties(options.capability_max));
  ABSL_RETURN_IF_ERROR(PrepareKernels());
  ABSL_RETURN_IF_ERROR(TakeMemory(options));
  ABSL_RETURN_IF_ERROR(TakeSearchWorkspace(options.batch_max));
  ABSL_RETURN_IF_ERROR(upload_ring_.Create(health_, arena_, kUploadRing));
  ABSL_RETURN_IF_ERROR(read_ring_.Create(health_, arena_, kReadRing));
  arena_.Seal();
  ABSL_RETURN_IF_ERROR(MeasureRates());
  health_.EndSetup();
  if (!plan::WorkspaceIsEnough(engine_limits_, kGenerationsMax)) {
    return absl::InternalError("the GPU workspace is too small for its own limits");
  }
  return absl::OkStatus();
}

absl::Status GpuCore::ReadDeviceProperties(int32_t capability_max) {
  cudaDeviceProp properties = {};
  ABSL_RETURN_IF_ERROR(
      health_.Check(cudaGetDeviceProperties(&properties, device_), "cudaGetDeviceProperties"));
  device_name_ = properties.name;
  int clock_khz = 0;
  int bus_bits = 0;
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, device_) == cudaSuccess &&
      cudaDeviceGetAttribute(&bus_bits, cudaDevAttrGlobalMemoryBusWidth, device_) == cudaSuccess) {
    // Two transfers per clock.
    read_bytes_per_second_ = 0.92 * 2.0 * 1000.0 * clock_khz * (bus_bits / 8.0);
  }
  SharedMemory shared = {.per_sm = static_cast<int64_t>(properties.sharedMemPerMultiprocessor),
                         .per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin)};
  int32_t capability = 10 * properties.major + properties.minor;
  if (capability_max != 0 && capability_max < capability) {
    capability = capability_max;
    shared = LeastSharedMemory(capability);
  }
  device_properties_ = {.sm_count = properties.multiProcessorCount,
                        .shared_bytes_per_sm = shared.per_sm,
                        .shared_bytes_per_block_max = shared.per_block};
  batch_device_ = {.sm_count = properties.multiProcessorCount,
                   .shared_bytes_per_sm = shared.per_sm,
                   .shared_bytes_per_block_max = shared.per_block,
                   .wgmma = BuildHasWgmma() && capability == 90};
  int sm_khz = 0;
  ABSL_RETURN_IF_ERROR(health_.Check(cudaDeviceGetAttribute(&sm_khz, cudaDevAttrClockRate, device_),
                                     "cudaDeviceGetAttribute"));
  cost_device_ = {.clocks_per_second = 1e3 * sm_khz * properties.multiProcessorCount,
                  .capability = capability,
                  .wgmma = batch_device_.wgmma,
                  .scans_tiles = capability >= kScanTileCapability};
  return absl::OkStatus();
}

absl::Status GpuCore::PrepareKernels() {
  const int64_t shared_bytes = device_properties_.shared_bytes_per_block_max;
  ABSL_RETURN_IF_ERROR(
      health_.Check(PrepareScan(static_cast<int>(shared_bytes)), "loading the scan kernels"));
  select_shape_ = SelectShapeFor(shared_bytes);
  ABSL_RETURN_IF_ERROR(health_.Check(PrepareSelect(select_shape_), "loading the selection kernel"));
  ABSL_RETURN_IF_ERROR(health_.Check(PrepareBatch(batch_device_, &batch_dimensions_),
                                     "loading the kernels of a batch"));
  ABSL_RETURN_IF_ERROR(
      health_.Check(PrepareEncode(shared_bytes, &codes_dim_max_), "loading the encode kernels"));
  ABSL_RETURN_IF_ERROR(health_.Check(PrepareOneQuery(kDimMax, shared_bytes, &has_one_query_kernel_),
                                     "loading the certified scan"));
  if (!has_one_query_kernel_) codes_dim_max_ = std::min(codes_dim_max_, batch_dim_max());
  ABSL_RETURN_IF_ERROR(health_.Check(PrepareTermSums(), "loading the kernels of row terms"));
  return health_.Check(PrepareLayout(), "loading the layout kernels");
}

absl::Status GpuCore::TakeMemory(const GpuOptions& options) {
  int64_t rows_bytes = options.memory_bytes;
  if (rows_bytes == 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ABSL_RETURN_IF_ERROR(
        health_.Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
    const int64_t usable = static_cast<int64_t>(free_bytes) - FixedWorkspaceBytes() -
                           KeyBytes(static_cast<int64_t>(free_bytes)) - kDeviceReserve;
    rows_bytes = std::max<int64_t>(0, usable) / 100 * 85;
  }
  if (rows_bytes < kMiB) {
    return absl::ResourceExhaustedError(
        absl::StrCat("GPU ", device_, ": memory_bytes = ", rows_bytes, ", the minimum is ", kMiB));
  }
  const int64_t key_bytes = KeyBytes(rows_bytes);
  engine_limits_ = EngineLimitsOf(options.k_max, key_bytes, cost_device_.scans_tiles);
  ABSL_RETURN_IF_ERROR(arena_.Create(
      health_, {.workspace_bytes = FixedWorkspaceBytes() + key_bytes, .slab_bytes = rows_bytes}));
  return host_rows_.CreateOnHost(health_, options.host_rows_bytes);
}

absl::Status GpuCore::TakeSearchWorkspace(int32_t batch_max) {
  const auto take = [this](auto*& part, int64_t bytes) -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(char* const bytes_at, arena_.TakeWorkspace(bytes));
    part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(bytes_at);
    return absl::OkStatus();
  };
  SearchWorkspace& w = workspace_;
  ABSL_RETURN_IF_ERROR(take(w.keys, engine_limits_.keys_max * 8));
  ABSL_RETURN_IF_ERROR(take(w.candidates, kSelectCandidateBytes));
  ABSL_RETURN_IF_ERROR(take(w.groups, kSelectGroupBytes));
  ABSL_RETURN_IF_ERROR(take(w.samples, int64_t{kSamplesMax} * 4));
  ABSL_RETURN_IF_ERROR(take(w.code_candidates, int64_t{kCandidatesMax} * 8));
  ABSL_RETURN_IF_ERROR(take(w.code_state, int64_t{sizeof(OneQueryState)}));
  ABSL_RETURN_IF_ERROR(take(w.queries, kQueryBytes));
  ABSL_RETURN_IF_ERROR(w.queries_host.Create(health_, kQueryBytes));
  ABSL_RETURN_IF_ERROR(w.results.Create(health_, kBatchesMax * kResultKeys * 8));
  ABSL_RETURN_IF_ERROR(w.counts.Create(health_, kListsMax * int64_t{sizeof(SelectCount)}));
  ABSL_RETURN_IF_ERROR(take(w.batch, kBatchesMax * kBatchBytes));
  ABSL_RETURN_IF_ERROR(w.batch_host.Create(health_, kBatchesMax * kBatchBytes));
  ABSL_RETURN_IF_ERROR(w.batch_outcomes.Create(health_, kBatchesMax * kOutcomeBytes));
  for (Event& done : w.batch_done) ABSL_RETURN_IF_ERROR(done.Create(health_));
  ABSL_RETURN_IF_ERROR(take(w.device_results, kResultKeys * 8));
  ABSL_RETURN_IF_ERROR(take(w.device_counts, kDeviceCountBytes));
  ABSL_RETURN_IF_ERROR(w.scan_overflow.Create(health_, int64_t{sizeof(uint32_t)}));
  std::memset(w.scan_overflow.host(), 0, sizeof(uint32_t));
  ABSL_RETURN_IF_ERROR(
      w.query_faults.Create(health_, int64_t{kBatchQueriesMax} * int64_t{sizeof(int32_t)}));
  ABSL_RETURN_IF_ERROR(w.code_outcome.Create(health_, int64_t{sizeof(OneQueryOutcome)}));
  std::memset(w.code_outcome.host(), 0, sizeof(OneQueryOutcome));
  ABSL_RETURN_IF_ERROR(
      answers_->Create(health_, kAnswerBlocks, AnswerBytes(kResultKeys, batch_max)));
  char* sent_queries = nullptr;
  ABSL_RETURN_IF_ERROR(take(sent_queries, kQueryBlocks * kQueryBlockBytes));
  ABSL_RETURN_IF_ERROR(query_memory_.Create(health_, kQueryBlocks, kQueryBlockBytes, sent_queries));
  ABSL_RETURN_IF_ERROR(w.stream.Create(health_, Stream::Priority::kHigh));
  // The selection kernel requires zeroed shared state on its first use.
  ABSL_RETURN_IF_ERROR(health_.Check(
      cudaMemsetAsync(w.groups, 0, static_cast<std::size_t>(kSelectGroupBytes), w.stream.get()),
      "cudaMemsetAsync"));
  ABSL_RETURN_IF_ERROR(health_.Check(
      cudaMemsetAsync(w.code_state, 0, sizeof(OneQueryState), w.stream.get()), "cudaMemsetAsync"));
  return health_.Check(cudaStreamSynchronize(w.stream.get()), "cudaStreamSynchronize");
}

absl::Status GpuCore::MeasureRates() {
  int cache_bytes = 0;
  ABSL_RETURN_IF_ERROR(
      health_.Check(cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device_),
                    "cudaDeviceGetAttribute"));
  const int64_t bytes_min = 4 * int64_t{cache_bytes};
  const int64_t bytes = std::min(arena_.bytes_total(), std::max(512 * kMiB, bytes_min));
  if (bytes >= bytes_min) {
    ABSL_RETURN_IF_ERROR(
        health_.Check(MeasureReadRate(arena_.slabs_begin(), bytes, device_properties_.sm_count,
                                      workspace_.stream.get(), &read_bytes_per_second_),
                      "measuring the rate of memory"));
  }
  cost_device_.read_bytes_per_second = read_bytes_per_second_;
  scan_rates_ = plan::RatesOf(cost_device_);
  return absl::OkStatus();
}

absl::Status GpuCore::WriteExtent(const Extent& extent, const void* data, int64_t bytes) {
  const auto* source = static_cast<const char*>(data);
  const int64_t slab_bytes = arena_.slab_bytes();
  CHECK_LE(extent.offset + bytes, static_cast<int64_t>(extent.slabs->size()) * slab_bytes);
  for (int64_t done = 0; done < bytes;) {
    ABSL_ASSIGN_OR_RETURN(StagingRing::Lease lease, upload_ring_.Acquire());
    const int64_t staged = std::min(bytes - done, upload_ring_.buffer_bytes());
    std::memcpy(lease.host(), source + done, static_cast<std::size_t>(staged));
    for (int64_t at = 0; at < staged;) {
      const int64_t offset = extent.offset + done + at;
      const int64_t inside = offset % slab_bytes;
      const int64_t piece = std::min(staged - at, slab_bytes - inside);
      char* const target = (*extent.slabs)[static_cast<std::size_t>(offset / slab_bytes)] + inside;
      ABSL_RETURN_IF_ERROR(
          health_.Check(cudaMemcpyAsync(target, lease.host() + at, static_cast<std::size_t>(piece),
                                        cudaMemcpyHostToDevice, lease.stream()),
                        "cudaMemcpyAsync"));
      at += piece;
    }
    ABSL_RETURN_IF_ERROR(lease.Submit());
    done += staged;
  }
  return absl::OkStatus();
}

absl::Status GpuCore::DrainUploads() {
  ABSL_ASSIGN_OR_RETURN(StagingRing::Lease lease, upload_ring_.Acquire());
  return lease.Finish();
}

}  // namespace nearfield::gpu

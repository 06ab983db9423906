// GpuCore: what the parts of the GPU backend share, namely the device, its memory and the staging
// rings. The backend and every plane and bitmap that it created hold a reference, so planes and
// bitmaps may outlive the backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/gpu/gpu_options.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/gpu/memory/arena.h"
#include "engine/gpu/memory/pinned_pool.h"
#include "engine/gpu/memory/query_memory.h"
#include "engine/gpu/memory/staging_ring.h"
#include "engine/gpu/runtime/cuda_handles.h"
#include "engine/gpu/runtime/device_health.h"
#include "engine/plan/scan_cost.h"
#include "engine/plan/search_plan.h"
#include "engine/topk/select.h"

namespace nearfield::gpu {

// Maximum queries of one tile of a scan of rows.
inline constexpr int32_t kTileQueriesMax = 1024;
inline constexpr int64_t kQueryElementsMax = int64_t{1} << 20;  // of their vectors
// Maximum queries of one batch that is answered from codes.
inline constexpr int32_t kBatchQueriesMax = 1024;
// Batches under way: the host prepares one, or takes the answers of one, while the device works on
// the other. A search of queries that are on the device uses one place only.
inline constexpr int kBatchesMax = 2;
inline constexpr int64_t kBatchBytes = int64_t{8} << 20;
// Blocks of memory for finished answers, of which answers may keep all but one, and for queries.
inline constexpr int kAnswerBlocks = 4;
inline constexpr int kQueryBlocks = 4;
inline constexpr int64_t kQueryBlockBytes = int64_t{4} << 20;
inline constexpr int64_t kOutcomeBytes = kBatchQueriesMax * int64_t{sizeof(BatchOutcome)};

// Device and pinned buffers of fixed size for the one search that runs at a time.
struct SearchWorkspace {
  uint64_t* keys = nullptr;
  uint64_t* candidates = nullptr;
  GroupState* groups = nullptr;
  uint32_t* samples = nullptr;          // [kSamplesMax]
  uint64_t* code_candidates = nullptr;  // [kCandidatesMax]
  OneQueryState* code_state = nullptr;
  char* queries = nullptr;    // the query block on the device
  PinnedMemory queries_host;  // the query block before its copy to the device
  PinnedMemory results;       // mapped: [kBatchesMax] blocks of result_keys_max keys, in lists
  PinnedMemory counts;        // mapped: one SelectCount per list
  PinnedMemory code_outcome;  // mapped: OneQueryOutcome
  // For each batch under way: kBatchBytes for vectors, k, codes and states; mapped, what the
  // encoder brings there, and its outcomes, [kBatchQueriesMax] BatchOutcome; and the event after
  // its last step.
  char* batch = nullptr;
  PinnedMemory batch_host;
  PinnedMemory batch_outcomes;
  Event batch_done[kBatchesMax];
  // For answers that are merged on the device: lists of keys, their counts or outcomes, and the
  // faults of queries.
  uint64_t* device_results = nullptr;
  char* device_counts = nullptr;
  PinnedMemory query_faults;   // mapped: [kBatchQueriesMax] int32_t
  PinnedMemory scan_overflow;  // mapped: uint32_t (LaidQueries)
  Stream stream;
};

class GpuCore {
 public:
  static absl::StatusOr<std::shared_ptr<GpuCore>> Create(const GpuOptions& options);
  ~GpuCore();

  // Makes the device current in the calling thread. Call it before any other CUDA call.
  // Returns: OK only while the device is alive.
  absl::Status Bind();

  // Blocks until the device has done all work of the search.
  absl::Status AwaitSearch() {
    return health_.Check(cudaStreamSynchronize(workspace_.stream.get()), "cudaStreamSynchronize");
  }

  // Copies `bytes` bytes from host memory to a linear range over slabs, beginning at byte
  // `offset`.
  // Reads `data` before it returns; the copy to the device is asynchronous.
  struct Extent {
    const std::vector<char*>* slabs = nullptr;
    int64_t offset = 0;
  };
  absl::Status WriteExtent(const Extent& extent, const void* data, int64_t bytes);

  // Blocks until all work enqueued on the upload ring is done.
  absl::Status DrainUploads();

  int device() const { return device_; }  // CUDA ordinal
  DeviceHealth& health() { return health_; }
  Arena& arena() { return arena_; }
  // Page-locked host memory for the rows of collections that keep them on the host.
  Arena& host_rows() { return host_rows_; }
  StagingRing& upload_ring() { return upload_ring_; }
  StagingRing& read_ring() { return read_ring_; }
  SearchWorkspace& workspace() { return workspace_; }
  // Memory for finished answers of one search, and for queries, each taken by a search.
  PinnedPool& answers() { return *answers_; }
  QueryMemory& query_memory() { return query_memory_; }
  const plan::DeviceProperties& device_properties() const { return device_properties_; }
  const plan::EngineLimits& engine_limits() const { return engine_limits_; }
  // Returns the rate of streaming loads, measured; for an arena that the caches hold: 92% of the
  // memory's peak rate.
  double read_bytes_per_second() const { return read_bytes_per_second_; }
  const plan::ScanRates& scan_rates() const { return scan_rates_; }
  const BatchDevice& batch_device() const { return batch_device_; }
  // Returns the largest dimension that the kernels of a batch serve on this device.
  int32_t batch_dim_max() const { return batch_dimensions_.usual_k; }
  bool BatchServes(int32_t dim, int32_t k) const {
    return k <= kBatchKMax && dim <= batch_dimensions_.Of(k);
  }
  // Returns true if the device has the shared memory for the search of one query from codes.
  bool has_one_query_kernel() const { return has_one_query_kernel_; }
  // Returns the largest dimension for which this device searches codes.
  int32_t codes_dim_max() const { return codes_dim_max_; }
  // Returns the variant of the selection kernel for this device.
  int select_shape() const { return select_shape_; }
  const std::string& device_name() const { return device_name_; }

 private:
  explicit GpuCore(int device) : device_(device), health_(device) {}
  absl::Status Init(const GpuOptions& options);
  absl::Status ReadDeviceProperties(int32_t capability_max);
  absl::Status PrepareKernels();
  absl::Status TakeMemory(const GpuOptions& options);
  absl::Status TakeSearchWorkspace(int32_t batch_max);
  absl::Status MeasureRates();

  const int device_;
  DeviceHealth health_;
  Arena arena_;
  Arena host_rows_;
  StagingRing upload_ring_;
  StagingRing read_ring_;
  SearchWorkspace workspace_;
  // Answers that keep a block keep its pool, not the core.
  const std::shared_ptr<PinnedPool> answers_ = std::make_shared<PinnedPool>();
  QueryMemory query_memory_;
  plan::DeviceProperties device_properties_;
  plan::EngineLimits engine_limits_;
  double read_bytes_per_second_ = 0;
  plan::Device cost_device_;
  plan::ScanRates scan_rates_;
  BatchDevice batch_device_;
  BatchDimensions batch_dimensions_;
  bool has_one_query_kernel_ = false;
  int32_t codes_dim_max_ = kDimMax;
  int select_shape_ = 0;
  std::string device_name_;
};

}  // namespace nearfield::gpu

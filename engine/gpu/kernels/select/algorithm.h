// What every selection algorithm offers, and the list of them. Host side; plain data.
//
// Contract of each, as in nearfield/engine/select.h: for every row the k best scores by (score
// descending, index ascending), sorted, to the bit; whatever the scores are. An algorithm may
// refuse a shape, never answer it wrongly, and never depend on the scores being kind: a buffer that
// would overflow has an exact way on.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ALGORITHM_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ALGORITHM_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "engine/gpu/kernels/select/group_state.h"

namespace nearfield::gpu {

enum class SelectType : uint8_t { kFloat32, kFloat16, kBFloat16 };

constexpr int64_t SelectTypeBytes(SelectType type) { return type == SelectType::kFloat32 ? 4 : 2; }

struct SelectShape {
  SelectType type = SelectType::kFloat32;
  int64_t batch = 0;  // 1 .. 65,535
  int64_t n = 0;      // 1 .. 2^32 - 1
  int64_t k = 0;      // 1 .. n
};

struct SelectFacts {
  int32_t sm_count = 0;
  int64_t shared_bytes_per_block_max = 0;
  int64_t shared_bytes_per_sm = 0;
};

struct SelectCall {
  SelectShape shape;
  SelectFacts facts;
  const void* scores = nullptr;  // [batch] rows, `stride` scores apart
  int64_t stride = 0;            // >= n
  void* values = nullptr;        // [batch, k]
  uint32_t* indices = nullptr;   // [batch, k]
  char* workspace = nullptr;     // 256-byte aligned; workspace_bytes of the algorithm, at least
  GroupState* groups = nullptr;  // [kGroupsMax], kept from call to call; for block groups
  cudaStream_t stream = nullptr;
};

struct SelectAlgorithm {
  const char* name;
  const char* summary;
  // nullptr where it can select the shape; else why not, with the limit.
  const char* (*refuses)(const SelectShape& shape, const SelectFacts& facts);
  // The first kSelectStateBytes of every workspace are state that the algorithms share: zero
  // between calls. What lies behind may hold anything when a call begins.
  int64_t (*workspace_bytes)(const SelectShape& shape, const SelectFacts& facts);
  // Sets the attributes of its kernels on the current device; once.
  cudaError_t (*prepare)(const SelectFacts& facts);
  // Asynchronous; captures in a graph.
  cudaError_t (*launch)(const SelectCall& call);
};

// Zeroed by InitWorkspace; a call leaves it zero.
inline constexpr int64_t kSelectStateBytes = int64_t{1} << 20;

// Each in the file of its name; those of histogram.h and radix_select.h beside.
extern const SelectAlgorithm kBlockFilter;
extern const SelectAlgorithm kBlockSort;
extern const SelectAlgorithm kRadixSort;
extern const SelectAlgorithm kRadixSortTiered;
extern const SelectAlgorithm kSampledThreshold;
extern const SelectAlgorithm kShortRow;
extern const SelectAlgorithm kWarpTournament;

// The choice among them for a shape, and all that can be forced: a table in algorithms.cc.
const SelectAlgorithm& ChooseSelect(const SelectShape& shape, const SelectFacts& facts);
std::span<const SelectAlgorithm* const> AllSelectAlgorithms();

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_SELECT_ALGORITHM_H_

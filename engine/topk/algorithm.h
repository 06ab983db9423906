// Interface of a selection algorithm, and the list of the engine's. Host side; plain data.
//
// Contract of each, as in nearfield/engine/select.h: for every row, the k best scores ordered by
// (score descending, index ascending), bit-exact for all scores; a row with fewer scores is padded.
// No score outside a row is read. An algorithm may refuse a shape
// but never returns a wrong answer. It never relies on favorable scores: every buffer that could
// overflow has an exact fallback.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "engine/topk/group_state.h"
#include "engine/topk/score_rows.h"
#include "nearfield/engine/score_type.h"

namespace nearfield::gpu {

struct SelectShape {
  ScoreType type = ScoreType::kFloat32;
  int64_t batch = 0;    // 1 .. 65,535
  int64_t n = 0;        // 1 .. 2^32 - 1; of ragged rows: the most that a row may have
  int64_t k = 0;        // 1 .. n
  bool ragged = false;  // rows have bounds in device memory
};

struct SelectDevice {
  int32_t sm_count = 0;
  int64_t shared_bytes_per_block_max = 0;
  int64_t shared_bytes_per_sm = 0;
};

struct SelectCall {
  SelectShape shape;
  SelectDevice device;
  ScoreRows rows;
  char* workspace = nullptr;     // 256-byte aligned; at least workspace_bytes() bytes
  GroupState* groups = nullptr;  // [kRowGroupsMax], persists between calls; for block groups
  cudaStream_t stream = nullptr;
};

struct SelectAlgorithm {
  const char* name;
  const char* summary;
  // Returns nullptr if it can select the shape, else the reason with the limit.
  const char* (*refuses)(const SelectShape& shape, const SelectDevice& device);
  // Returns the bytes of workspace that a call needs. The first kSelectStateBytes of every
  // workspace hold state that the algorithms share: it is zero between calls. The rest is undefined
  // when a call begins.
  int64_t (*workspace_bytes)(const SelectShape& shape, const SelectDevice& device);
  // Sets the attributes of its kernels on the current device. Called once.
  cudaError_t (*prepare)(const SelectDevice& device);
  // Enqueues the selection. Asynchronous; can be captured in a CUDA graph.
  cudaError_t (*launch)(const SelectCall& call);
};

// Bytes of the shared state. InitWorkspace zeroes it, and every call leaves it zero.
inline constexpr int64_t kSelectStateBytes = int64_t{1} << 20;

// Each is defined in the file of its name.
extern const SelectAlgorithm kRadixSelect;
extern const SelectAlgorithm kRadixSort;
extern const SelectAlgorithm kSampledThreshold;
extern const SelectAlgorithm kShortRow;

// The algorithm that serves a shape, and all those that serve one: tables in algorithms.cc.
const SelectAlgorithm& ChooseSelect(const SelectShape& shape, const SelectDevice& device);
std::span<const SelectAlgorithm* const> AllSelectAlgorithms();

}  // namespace nearfield::gpu

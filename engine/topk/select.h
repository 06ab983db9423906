// Selection of a search: finds the k largest of the 64-bit keys that the scan wrote, sorted, for
// many queries and generations in one launch. Uses the device code of sampled_threshold. Host side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/topk/group_state.h"
#include "engine/topk/select_policy.h"

namespace nearfield::gpu {

// Keys of one generation, or of a part of it, for every query of the tile.
struct SelectPiece {
  int64_t key_begin = 0;     // offset in a query's keys; even
  int64_t keys_count = 0;    // < 2^32
  int32_t result_slot = -1;  // list of a query's results for the answer; -1: the carry
};

// Counts of one problem.
struct SelectCount {
  uint32_t kept = 0;        // min(k, keys present)
  uint32_t candidates = 0;  // keys sorted at the end
};

struct SelectArgs {
  uint64_t* keys = nullptr;  // [queries_count, keys_pitch]; 16-byte aligned, even pitch
  int64_t keys_pitch = 0;
  int32_t queries_count = 0;
  const int32_t* k = nullptr;  // [queries_count], 1 .. kSelectKMax
  int32_t pieces_count = 0;
  SelectPiece pieces[kSelectPiecesMax];
  int32_t blocks_per_group = 1;
  // Workspace; read only if blocks_per_group > 1.
  GroupState* groups = nullptr;    // [kGroupsMax], zero at first, then as the last launch left it
  uint64_t* candidates = nullptr;  // [kGroupsMax][2][kSelectCapacity]
  // Answers, in mapped host memory or in device memory. List (slot, query) has the number slot *
  // queries_count + query.
  uint64_t* results = nullptr;    // [lists][results_pitch], best first
  int32_t results_pitch = 0;      // >= every k
  SelectCount* counts = nullptr;  // [lists]
  // A piece without a slot writes its answer at the start of its query's keys, padded to carry_keys
  // with kNoSelectKey.
  int32_t carry_keys = 0;
};

inline constexpr int64_t kSelectGroupBytes = kGroupsMax * int64_t{sizeof(GroupState)};
inline constexpr int64_t kSelectCandidateBytes = int64_t{kGroupsMax} * 2 * kSelectCapacity * 8;

// Returns the index in kSelectShapes of the variant for a device whose blocks may use this many
// bytes of shared memory.
int SelectShapeFor(int64_t shared_bytes_per_block_max);

// Loads a variant of the kernel. Fails if an SM of the device cannot hold one block of it.
cudaError_t PrepareSelect(int shape);

// Enqueues the selection with `groups` groups of args.blocks_per_group blocks. Asynchronous. If
// there are several blocks per group, all blocks must be resident concurrently (one per
// multiprocessor always is), and groups <= kGroupsMax. Requires: `shape` is prepared.
cudaError_t LaunchSelect(int shape, int groups, const SelectArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

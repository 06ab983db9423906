// The certified search of one query in one launch, host side: scans the codes, finds a threshold,
// scores the rows that may reach it canonically, and returns the best in order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

inline constexpr int kOneQueryThreads = 512;
// Maximum number of rows whose canonical score reaches the threshold; more is an overflow.
inline constexpr uint32_t kCandidatesMax = 8192;
// Maximum number of rows per block that may reach it.
inline constexpr uint32_t kBlockCandidatesMax = 8192;
inline constexpr uint32_t kSamplesPerBlockMax = 64;
// Maximum of all blocks together.
inline constexpr uint32_t kSamplesMax = 17 * kOneQueryThreads;
// Bytes of a query as it is passed to the kernel: its two codes, each padded with zeros to whole
// slices, then its dimensions as fp32.
constexpr int64_t QueryBytes(int32_t dim, int32_t code_bytes) {
  return int64_t{2} * code_bytes + int64_t{4} * dim;
}
// Queries of up to 1,536 dimensions are passed as kernel parameters.
inline constexpr int64_t kInlineQueryBytes = QueryBytes(1536, CodeBytesOf(1536));

// Counters in device memory. Zero before the first launch; each launch resets them to zero.
struct OneQueryState {
  uint32_t arrived;
  uint32_t left;
  uint32_t candidates;  // rows that reach the threshold
  uint32_t rescored;    // rows scored canonically
  uint32_t overflow;    // blocks that had no room
  uint32_t reserved[59];
};

// Result of a search.
struct OneQueryOutcome {
  uint32_t reached = 0;    // rows whose score reaches the threshold
  uint32_t rescored = 0;   // rows scored canonically
  uint32_t overflow = 0;   // not 0: some rows found no room; the keys are the best of the others
  uint32_t threshold = 0;  // as ordered bits
  uint32_t launch = 0;     // OneQueryArgs::launch; written last
};

struct OneQueryArgs {
  CodedCorpus corpus;
  Metric metric = Metric::kDot;
  uint32_t k = 0;
  uint32_t samples_per_block = 0;  // 1 .. kSamplesPerBlockMax; at most kSamplesMax in all blocks
  uint32_t keys_max = 0;           // maximum number of keys to return, best first
  // Not 0: reuse the bounds of the previous launch and collect again with this threshold, as
  // ordered bits. Requires: k rows are known to reach it.
  uint32_t threshold = 0;
  double query_squared = 1.0;  // S(q, q); read for cosine only
  // The sum of each row's terms, by row index; null: the query has no row terms. With terms, all
  // bounds and scores that the kernel compares are those of final scores.
  const double* sums = nullptr;
  double score_weight = 1.0;
  // Workspace.
  float* uppers = nullptr;         // [corpus.row_index_end]
  uint32_t* samples = nullptr;     // [kSamplesMax]
  uint64_t* candidates = nullptr;  // [kCandidatesMax]
  OneQueryState* state = nullptr;
  // Answers, in mapped host memory or device memory. A row's key has its score and, in place of a
  // rank, rows_begin + rank.
  uint64_t* keys = nullptr;  // [keys_max]
  OneQueryOutcome* outcome = nullptr;
  uint32_t launch = 0;      // differs from the launch number of the previous outcome
  bound::QueryBound bound;  // of both codes
  // Not null: the query was encoded on the device, where its bound and S(q, q) are.
  const bound::QueryBound* device_bound = nullptr;
  const double* device_squared = nullptr;
  int32_t dim = 0;
  const char* query = nullptr;  // QueryBytes, device; null: inline_query
  alignas(16) char inline_query[kInlineQueryBytes];
};

// Returns the number of rows that a group of lanes processes together; a warp has four groups.
constexpr int OneQueryUnits(int32_t code_bytes) {
  return code_bytes <= 128 ? 8 : code_bytes <= 256 ? 4 : code_bytes <= 512 ? 2 : 1;
}

// The number of rows in a code slab is a multiple of the returned number.
constexpr int64_t CodeSlabAlign(int32_t code_bytes) {
  return OneQueryUnits(code_bytes) > 2 ? 4 * OneQueryUnits(code_bytes) : kSwizzleAtomRows;
}

int64_t OneQuerySharedBytes(int32_t dimension, int32_t code_bytes);

// Loads the kernels and allows them the shared memory that `dim_max` needs. Writes false, and loads
// nothing, if that is more than `shared_bytes_max`, the maximum of a block. Call once.
cudaError_t PrepareOneQuery(int32_t dim_max, int64_t shared_bytes_max, bool* fits);

// Launches the search, asynchronously and cooperatively. `blocks`: one per SM.
cudaError_t LaunchOneQuery(RowType row, int blocks, const OneQueryArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

// The certified search of one query in one launch: codes are scanned, a threshold is found, what
// may reach it is scored canonically, the best come out in order. Host side.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_ONE_QUERY_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_ONE_QUERY_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "engine/gpu/kernels/certified/coded_corpus.h"
#include "engine/gpu/kernels/scan/scan.h"
#include "engine/score/certified_bound.h"

namespace nearfield::gpu {

inline constexpr int kOneQueryThreads = 512;
// Rows whose canonical score reaches the threshold, at most: more is an overflow.
inline constexpr uint32_t kCandidatesMax = 8192;
// Rows of one block that may reach it.
inline constexpr uint32_t kBlockCandidatesMax = 8192;
inline constexpr uint32_t kSamplesPerBlockMax = 64;
// Of all blocks together.
inline constexpr uint32_t kSamplesMax = 17 * kOneQueryThreads;
// A query as it travels: its two codes, each padded with zeros to whole lines, then its dimensions
// as fp32.
constexpr int64_t QueryBytes(int32_t dim, int32_t code_bytes) {
  return int64_t{2} * code_bytes + int64_t{4} * dim;
}
// Queries of up to 1,536 dimensions travel with the launch.
inline constexpr int64_t kInlineQueryBytes = QueryBytes(1536, CodeBytesOf(1536));

// Zero before its first use; a launch leaves it so.
struct OneQueryState {
  uint32_t arrived;
  uint32_t left;
  uint32_t candidates;  // rows that reach the threshold
  uint32_t rescored;    // rows scored canonically
  uint32_t overflow;    // blocks that had no room
  uint32_t reserved[59];
};

// What came of a search.
struct OneQueryOutcome {
  uint32_t reached = 0;    // rows whose score reaches the threshold
  uint32_t rescored = 0;   // rows scored canonically
  uint32_t overflow = 0;   // not 0: there was no room for some; the keys are the best of a part
  uint32_t threshold = 0;  // as ordered bits
  uint32_t launch = 0;     // of args; written last
};

struct OneQueryArgs {
  CodedCorpus corpus;
  ScanMetric metric = ScanMetric::kDot;
  uint32_t k = 0;
  uint32_t samples_per_block = 0;  // 1 .. kSamplesPerBlockMax, kSamplesMax together
  uint32_t keys_max = 0;           // keys wanted back, best first
  // Not 0: the bounds are there from the launch before; collect once more with this threshold, as
  // ordered bits, which k rows are known to reach.
  uint32_t threshold = 0;
  double query_squared = 1.0;  // S(q, q); read for cosine only
  // Workspace.
  float* uppers = nullptr;         // [numbers]
  uint32_t* samples = nullptr;     // [kSamplesMax]
  uint64_t* candidates = nullptr;  // [kCandidatesMax]
  OneQueryState* state = nullptr;
  // Answers: host memory, mapped, or device memory. The key of a row: its score, and in place of a
  // rank rows_begin + rank.
  uint64_t* keys = nullptr;  // [keys_max]
  OneQueryOutcome* outcome = nullptr;
  uint32_t launch = 0;      // not that of the outcome before
  score::QueryBound bound;  // of both codes
  int32_t dim = 0;
  const char* query = nullptr;  // QueryBytes, device; null: inline_query
  alignas(16) char inline_query[kInlineQueryBytes];
};

// Rows that a group of lanes takes at once; a warp takes four times as many.
constexpr int OneQueryUnits(int32_t code_bytes) {
  return code_bytes <= 128 ? 8 : code_bytes <= 256 ? 4 : code_bytes <= 512 ? 2 : 1;
}

// Rows a code slab holds a multiple of.
constexpr int64_t CodeSlabAlign(int32_t code_bytes) {
  return OneQueryUnits(code_bytes) > 2 ? 4 * OneQueryUnits(code_bytes) : kCodeGroupRows;
}

int64_t OneQuerySharedBytes(int32_t dimension, int32_t code_bytes);

// Loads the kernels and lets them use the shared memory that `dim_max` needs. Once.
cudaError_t PrepareOneQuery(int32_t dim_max);

// Asynchronous; cooperative: `blocks` of one a multiprocessor.
cudaError_t LaunchOneQuery(ScanRow row, int blocks, const OneQueryArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_ONE_QUERY_H_

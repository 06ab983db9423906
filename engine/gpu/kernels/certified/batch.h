// The certified search of many queries: codes on the tensor cores, rows that may reach a query's
// threshold in its queue, thresholds that rise from stage to stage. Host side. All asynchronous.
//
// A stage scans some of the rows, evenly spread, for all queries: the first few of them whole, each
// later one many times more, against the threshold that the stages before have proven: k rows are
// known to reach it. After each stage the rows with the best bounds are scored canonically and the
// threshold rises; after the last, all that may reach it are.
#ifndef NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_H_
#define NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/certified/coded_corpus.h"
#include "engine/gpu/kernels/scan/scan.h"
#include "engine/score/certified_bound.h"
#include "engine/score/rotation_shape.h"

namespace nearfield::gpu {

inline constexpr int kBatchTileRows = 64;
inline constexpr int32_t kBatchKMax = 1024;
inline constexpr int32_t kBatchDimMax = 8192;
// Rows that may reach a query's last threshold.
inline constexpr uint32_t kBatchKeysMax = 2048;
// Row numbers of a batch stay below this: the bit marks a row that has its canonical score.
inline constexpr uint32_t kScoredBit = 0x80000000u;
inline constexpr uint32_t kNoNumber = 0xffffffffu;

// A row in a query's queue: its number, and the bits of an upper bound of its score; or, with
// kScoredBit, of the score.
using QueueEntry = uint2;

// What is kept of each query.
struct BatchQuery {
  score::QueryBound first_only;
  score::QueryBound both;
  float threshold;    // k rows are known to reach it
  double squared;     // S(q, q); for cosine only
  uint32_t listed;    // entries in its queue, or more
  uint32_t scored;    // rows scored canonically
  uint32_t overflow;  // not 0: the queue had no room for a row; later stages leave the query out
};

struct BatchArgs {
  CodedCorpus corpus;
  score::RotationShape rotation;
  ScanMetric metric = ScanMetric::kDot;
  int32_t queries = 0;
  int32_t code_stride = 0;         // bytes of a row's code, and of a query's: lines of 128
  const float* vectors = nullptr;  // device: [queries, dimension]
  const int32_t* k = nullptr;      // device: [queries], 1 .. kBatchKMax
  char* first = nullptr;           // [queries, code_stride]: first codes
  char* second = nullptr;          // [queries, code_stride]: second codes
  BatchQuery* state = nullptr;     // [queries]
  QueueEntry* queues = nullptr;    // [queries, capacity]
  uint32_t capacity = 0;
  // Answers: host memory, mapped, or device memory.
  uint64_t* keys = nullptr;  // [queries, keys_pitch], best first
  uint32_t keys_pitch = 0;
  uint4* outcomes = nullptr;  // [queries]: reached, scored, overflow, 0
};

// Tiles of 64 rows whose number is a multiple of `step`, but not of `done_step`, which an earlier
// stage has scanned; 0 in the first stage, whose rows all go to the queues.
struct BatchStage {
  uint32_t step = 1;
  uint32_t done_step = 0;
  uint32_t tiles = 0;  // of them
  bool last = false;
};

// Queries that a block multiplies with at once.
int BatchQueriesAtOnce(int queries, int32_t code_stride);

cudaError_t PrepareBatch();
cudaError_t LaunchBatchEncode(const BatchArgs& args, cudaStream_t stream);
cudaError_t LaunchBatchScan(const BatchArgs& args, const BatchStage& stage, int sm_count,
                            cudaStream_t stream);
cudaError_t LaunchBatchRefine(ScanRow row, const BatchArgs& args, const BatchStage& stage,
                              cudaStream_t stream);

}  // namespace nearfield::gpu

#endif  // NEARFIELD_ENGINE_GPU_KERNELS_CERTIFIED_BATCH_H_

// The certified search of a batch of queries, host side. All launches are asynchronous.
//
// The search runs in stages. Each stage scans evenly spread rows for all queries on the tensor
// cores, either their int8 codes or the rows themselves, and puts the rows that may reach a query's
// threshold into the query's queue. A threshold is a score that k rows are known to reach. The
// first stage has none and queues all of its few rows; each later stage scans many times more rows.
// After each stage the rows with the best bounds are scored canonically, which raises the
// thresholds. After the last stage all rows that may reach the threshold are scored.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/bound/rotation_shape.h"
#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/kernels/terms/batch_terms.h"

namespace nearfield::gpu {

inline constexpr int kBatchTileRows = 64;
inline constexpr int32_t kBatchKMax = 4352;
inline constexpr int32_t kBatchDimMax = 8192;
// A larger k needs more shared memory, which not every device has.
inline constexpr int32_t kBatchUsualKMax = 1024;
// Many queries with a smaller k are refined with little shared memory.
inline constexpr int32_t kBatchFewKMax = 128;
// Maximum number of rows that may reach a query's last threshold: up to kBatchFewKMax, up to
// kBatchUsualKMax, and above.
inline constexpr uint32_t kBatchFewKeys = 1024;
inline constexpr uint32_t kBatchKeys = 2048;
inline constexpr uint32_t kBatchKeysOfLargeK = 8192;
// If the corpus has several generations, the keys of an answer include further rows of the k-th
// score, up to k of each generation, because ranks of different generations do not compare. There
// is room for all of them or for kBatchKeysOfTies keys in all, and for at least kBatchTiesMin rows
// beyond k.
inline constexpr int32_t kBatchTiesMin = 32;
inline constexpr int32_t kBatchKeysOfTies = 512;
// Queries that a block multiplies with exact rows.
inline constexpr int kRowBatchQueries = 128;
// Global row indices of a batch stay below this bit, which marks a row that has its canonical
// score.
inline constexpr uint32_t kScoredBit = 0x80000000u;
inline constexpr uint32_t kNoRowIndex = 0xffffffffu;

// A row in a query's queue: its global index, and the bits of an upper bound of its score. With
// kScoredBit: the bits of the score itself.
using QueueEntry = uint2;

// State of one query.
struct BatchQuery {
  bound::QueryBound first_only;
  bound::QueryBound both;
  float threshold;    // a score that k rows are known to reach
  double squared;     // S(q, q); for cosine only
  uint32_t kept;      // entries that the refinement before left in the queue
  uint32_t listed;    // entries requested for its queue; may exceed the capacity
  uint32_t scored;    // rows scored canonically
  uint32_t overflow;  // not 0: its rows do not fit in the queue; later stages skip the query
};

// Result of one query.
struct alignas(16) BatchOutcome {
  uint32_t rescored;  // rows scored canonically
  uint32_t overflow;  // not 0: some rows found no room, so the query has no answer
  uint32_t keys;      // keys written
};

// The rows of one generation that a query does not see.
struct AbsentView {
  TombstoneView rows;
  uint64_t all = 0;  // not 0: it sees no row

  // Returns the bits of rows 64 * index to 64 * index + 63.
  NEARFIELD_HOST_DEVICE uint64_t word(int64_t index) const {
    return all != 0 ? ~uint64_t{0} : rows.word(index);
  }
};

// Mapped host memory that the encoder brings to device memory, where later kernels read it often.
// So no copy is enqueued. Null: it is there.
struct BatchInput {
  const float* vectors = nullptr;       // [queries, dimension]
  const int32_t* k = nullptr;           // [queries]
  const AnswerPlace* places = nullptr;  // [queries]
  const AbsentView* absent = nullptr;   // [queries, generations]
  const BatchTermList* terms = nullptr;
};

// The data that a batch scans.
enum class BatchSource : uint8_t {
  kCodes,  // int8 codes of the rows
  kRows,   // exact rows, rounded to integers
};

struct BatchArgs {
  CodedCorpus corpus;
  // The same in device memory, where the encoder writes it: for threads of a warp that need
  // different generations, which wait for each other when they read parameters.
  CodedCorpus* corpus_in_memory = nullptr;
  BatchInput input;
  bound::RotationShape rotation;
  Metric metric = Metric::kDot;
  BatchSource source = BatchSource::kCodes;
  int32_t queries = 0;
  int32_t k_max = 0;  // the largest k
  // The queries overflowed before: more than kBatchFewKeys rows may reach a last threshold.
  bool overflowed = false;
  // Bytes of a query's code. Codes: as of a row, a multiple of 128. Rows: elements of a padded row.
  int32_t code_stride = 0;
  float* vectors = nullptr;       // device: [queries, dimension]
  int32_t* k = nullptr;           // device: [queries], 1 .. kBatchKMax
  AnswerPlace* places = nullptr;  // device: [queries]; null: answers are not merged on the device
  // Device: [queries, corpus.count], rows beyond those that the search does not see; null: every
  // query sees all rows of the search.
  AbsentView* absent = nullptr;
  // Device: [queries]; null: no query has row terms. With terms, thresholds, queues and keys hold
  // final scores and bounds of them. The pointers in the lists are to the bytes that follow.
  BatchTermList* terms = nullptr;
  int64_t terms_bytes = 0;  // of the lists and what follows
  // Device: [tiles of the corpus, queries], what a bound in a tile must reach (LaunchBatchReach);
  // null without terms.
  float* reach = nullptr;
  // [queries, code_stride]: first and second codes; or, in the order of a row's elements, the high
  // and low parts of integers.
  char* first = nullptr;
  char* second = nullptr;
  BatchQuery* state = nullptr;   // [queries]
  QueueEntry* queues = nullptr;  // [queries, capacity]
  uint32_t capacity = 0;
  // Answers, in mapped host memory or device memory.
  uint64_t* keys = nullptr;  // [queries, keys_pitch], best first
  uint32_t keys_pitch = 0;
  BatchOutcome* outcomes = nullptr;  // [queries]

  // Returns whether the queries differ in the rows that they see, or in what a tile must reach.
  bool ChoosesRows() const { return absent != nullptr || terms != nullptr; }
};

// A stage scans the tiles (64 rows) whose index is a multiple of `step`, except multiples of
// `done_step`: earlier stages scanned these. done_step is 0 in the first stage, which queues all of
// its rows.
struct BatchStage {
  uint32_t step = 1;
  uint32_t done_step = 0;
  uint32_t tiles = 0;  // number of tiles
  // If more rows than this reach a query's threshold after the stage, their share of the next
  // stage's rows would not fit in its queue. The query then has too many candidates at once.
  uint32_t kept_max = 0;
  bool last = false;
};

// Properties of a device that decide how its kernels run.
struct BatchDevice {
  int sm_count = 0;
  int64_t shared_bytes_per_sm = 0;
  int64_t shared_bytes_per_block_max = 0;
  bool wgmma = false;  // scan with the kernels for compute capability 9.0
};

// Returns true if this build contains the kernels for compute capability 9.0.
bool BuildHasWgmma();

// Returns the number of queries that one block multiplies with codes together.
int BatchQueriesAtOnce(const BatchDevice& device, int queries, int32_t code_stride);

// The largest dimensions for which a device has enough shared memory.
struct BatchDimensions {
  int32_t usual_k = kBatchDimMax;  // for k up to kBatchUsualKMax
  int32_t large_k = kBatchDimMax;

  int32_t Of(int32_t k) const { return k <= kBatchUsualKMax ? usual_k : large_k; }
};

// Loads the kernels.
cudaError_t PrepareBatch(const BatchDevice& device, BatchDimensions* dimensions);
cudaError_t LaunchBatchEncode(const BatchArgs& args, cudaStream_t stream);
cudaError_t LaunchBatchScan(RowType row, const BatchArgs& args, const BatchStage& stage,
                            const BatchDevice& device, cudaStream_t stream);
// Computes args.reach for the tiles of a stage after the first. Requires: the queries have terms.
cudaError_t LaunchBatchReach(const BatchArgs& args, const BatchStage& stage, cudaStream_t stream);
cudaError_t LaunchBatchRefine(RowType row, const BatchArgs& args, const BatchStage& stage,
                              const BatchDevice& device, cudaStream_t stream);

}  // namespace nearfield::gpu

// The scan of exact rows for a batch of queries, with mma.sync, for every supported card. Each row
// type is compiled in its own file.
//
// Rows are rounded to 16-bit integers on their way to shared memory (bound/integer_bound.h), and
// multiplied as int8 parts. The queries arrive as integers (batch_encode.cu).
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/bound/integer_bound.h"
#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_query_tiles.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"
#include "engine/gpu/kernels/batch/mma_products.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"

namespace nearfield::gpu {

// Rows and queries pass through shared memory in steps of 32 dimensions, two steps at a time.
inline constexpr int kRowStepDims = kMmaBytes;
inline constexpr int kRowStages = 2;
inline constexpr int kRowWarps = kRowBatchThreads / kWarp;
// Rows that a block multiplies together: two tiles.
inline constexpr int kRowsOfBlock = 2 * kBatchTileRows;
// A warp multiplies 32 rows with 64 queries.
inline constexpr int kRowsOfWarp = 32;
inline constexpr int kQueriesOfWarp = 64;
inline constexpr int kWarpsOfRows = kRowsOfBlock / kRowsOfWarp;
inline constexpr int kRowBlocksOfWarp = kRowsOfWarp / kMmaRows;

// One step of 128 rows or queries: 32 bytes each. The two 16-byte chunks of every second four are
// exchanged, so that the same chunk of eight neighbors falls into different banks.
struct alignas(128) StepBytes {
  unsigned char bytes[kRowsOfBlock * kRowStepDims];

  __device__ static uint32_t ChunkAt(int index, int chunk) {
    return static_cast<uint32_t>(index * kRowStepDims + ((chunk ^ (index >> 2 & 1)) << 4));
  }
};
static_assert(kRowBatchQueries == kRowsOfBlock, "one size of a step");

struct RowStage {
  StepBytes rows_high;
  StepBytes rows_low;
  StepBytes queries_high;
  StepBytes queries_low;
};

struct RowScanShared {
  RowStage stages[kRowStages];
  // The bounds of two pairs of tiles: one is compared while the next one begins.
  bound::RowBound bounds[2][kRowsOfBlock];
  SharedQueries<kRowBatchQueries> queries;
  SurvivorRing survivors[kRowWarps];
};
template <bool kChoose>
struct RowScanMemory : RowScanShared, TilesOfWarps<kQueriesOfWarp, kRowWarps, kChoose> {};

// Brings the pairs of tiles of a block to shared memory, one step per call of Fetch and Store.
// Eight threads read 32 dimensions of a row; a thread does so for four rows. The blocks begin with
// different dimensions, because a step of all rows is at the same place of each row: at once, they
// would all use the same part of the memory.
template <typename Row>
class RowFeed {
 public:
  __device__ RowFeed(const BatchArgs& args, const BatchStage& stage, RowScanShared& shared,
                     int first_query, uint32_t first_pair, uint32_t pairs_step)
      : args_(args),
        stage_(stage),
        shared_(shared),
        steps_(args.code_stride / kRowStepDims),
        query_(first_query + QueryOfThread()),
        first_step_(static_cast<int>(first_pair) * kAheadSteps % RoundDown(steps_)),
        pair_(first_pair),
        pairs_step_(pairs_step) {
    Find(first_pair, next_);
    Begin();
  }

  // Requests the next step, if there is one. Requires: all threads have used what Store wrote two
  // steps before.
  __device__ __forceinline__ void Fetch() {
    if (left_ == 0) {
      pair_ += pairs_step_;
      if (!HasPair(pair_)) return;
      Begin();
    }
    const int quad = step_ * (kRowStepDims / 4) + Part();
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      LoadStreaming(reinterpret_cast<const typename Row::Quad*>(rows_[r]) + quad, quads_[r]);
    }
    FetchQueries();
    if (step_ % kAheadSteps == 0) PrefetchAhead();
    // The rows of the next pair are found early, so that their first step does not wait for it.
    if (left_ == steps_ && HasPair(pair_ + pairs_step_)) Find(pair_ + pairs_step_, next_);
    step_ = step_ + 1 == steps_ ? 0 : step_ + 1;
    --left_;
  }

  // Stores what Fetch requested.
  __device__ __forceinline__ void Store() {
    if (!HasPair(pair_)) return;
    RowStage& to = shared_.stages[at_];
    // The rows of a thread lie a multiple of eight apart, so their chunks are permuted equally.
    const uint32_t first =
        StepBytes::ChunkAt(RowOf(0), Part() / 4) + static_cast<uint32_t>(Part() % 4 * 4);
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const uint32_t offset = first + static_cast<uint32_t>(RowOf(r) - RowOf(0)) * kRowStepDims;
      // The low bytes of elements 0 and 1, or 2 and 3, then their high bytes.
      const uint32_t front = __byte_perm(Biased<0>(r), Biased<1>(r), 0x5140);
      const uint32_t back = __byte_perm(Biased<2>(r), Biased<3>(r), 0x5140);
      *reinterpret_cast<uint32_t*>(to.rows_low.bytes + offset) =
          __byte_perm(front, back, 0x5410) ^ kBiasOfBytes;
      *reinterpret_cast<uint32_t*>(to.rows_high.bytes + offset) =
          __byte_perm(front, back, 0x7632) ^ kBiasOfBytes;
    }
    at_ = at_ + 1 == kRowStages ? 0 : at_ + 1;
  }

  __device__ int steps() const { return steps_; }

 private:
  static constexpr int kAheadSteps = 4;
  static constexpr int kThreadsOfRow = kRowStepDims / 4;
  static constexpr int kRowsOfThread = kRowsOfBlock * kThreadsOfRow / kRowBatchThreads;
  static_assert(kRowBatchThreads / kThreadsOfRow * kRowsOfThread == kRowsOfBlock, "all rows");
  static_assert(kRowBatchThreads == 2 * kRowBatchQueries, "two chunks a query");
  static constexpr uint32_t kBiasOfBytes = 0x80808080u;

  // Where this thread's rows are, and S(x, x) of the row RowOf(Part()).
  struct Found {
    const char* rows[kRowsOfThread];
    double squared;
  };

  __device__ static int Part() { return static_cast<int>(threadIdx.x) % kThreadsOfRow; }
  // Returns the index, in the pair, of this thread's row r.
  __device__ static int RowOf(int r) {
    return static_cast<int>(threadIdx.x) / kThreadsOfRow + r * (kRowBatchThreads / kThreadsOfRow);
  }
  __device__ static int QueryOfThread() { return static_cast<int>(threadIdx.x) / 2; }
  // Returns the largest multiple of kAheadSteps up to `steps`, at least 1.
  __device__ static int RoundDown(int steps) { return max(steps / kAheadSteps * kAheadSteps, 1); }
  __device__ __forceinline__ bool HasPair(uint32_t pair) const { return 2 * pair < stage_.tiles; }

  // Tiles and rows that do not exist are replaced by the last ones.
  __device__ __forceinline__ void Find(uint32_t pair, Found& found) const {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const int row = RowOf(r);
      const uint32_t tile =
          min(2 * pair + static_cast<uint32_t>(row / kBatchTileRows), stage_.tiles - 1);
      const TilePlace place(args_.corpus, TileAt(stage_, tile));
      const uint32_t slot = place.SlotOf(static_cast<uint32_t>(row % kBatchTileRows));
      found.rows[r] = place.generation->rows.row(slot);
      if (Part() == r) found.squared = *place.generation->rows.norm(slot);
    }
  }

  // Begins the pair that was found last: computes how its rows become integers, and their bounds.
  __device__ __forceinline__ void Begin() {
    float factor = 0;
    if (Part() < kRowsOfThread) {
      const bound::IntegerRow made =
          bound::MakeIntegerRow(args_.metric, next_.squared, args_.rotation.dimension);
      factor = made.factor;
      shared_.bounds[turn_][RowOf(Part())] = made.bound;
    }
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      rows_[r] = next_.rows[r];
      factors_[r] = __shfl_sync(kFullWarp, factor, r, kThreadsOfRow);
    }
    turn_ ^= 1;
    step_ = first_step_;
    left_ = steps_;
  }

  // Brings kAheadSteps steps of the rows into L2, kAheadSteps steps before the first of them: the
  // next ones of this pair, or the first ones of the next pair. Longer pieces of a row than a step
  // reads suit the memory.
  __device__ __forceinline__ void PrefetchAhead() const {
    constexpr int kStepBytes = kRowStepDims * Row::kBytes;
    constexpr int kLineBytes = 128;
    constexpr int kLines = kAheadSteps * kStepBytes / kLineBytes;
    constexpr int kRowsAtOnce = kThreadsOfRow / kLines;
    static_assert(kLines * kRowsAtOnce == kThreadsOfRow, "whole rows");
    const int ahead = step_ + kAheadSteps >= steps_ ? 0 : step_ + kAheadSteps;
    const bool next_pair = ahead == first_step_;
    if (next_pair && !HasPair(pair_ + pairs_step_)) return;
    const int offset = ahead * kStepBytes + Part() % kLines * kLineBytes;
    if (offset >= steps_ * kStepBytes) return;
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      if (r % kRowsAtOnce != Part() / kLines) continue;
      const char* const row = next_pair ? next_.rows[r] : rows_[r];
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row + offset));
    }
  }

  // A query that does not exist is zero. It is not read in place of another one, because all blocks
  // would read that one at once.
  __device__ __forceinline__ void FetchQueries() {
    const int chunk = static_cast<int>(threadIdx.x) % 2;
    const bool exists = query_ < args_.queries;
    const int64_t from = exists ? int64_t{query_} * args_.code_stride : 0;
    const int64_t at = from + step_ * kRowStepDims + chunk * 16;
    const size_t zeros = exists ? 0 : 16;
    const uint32_t to = StepBytes::ChunkAt(QueryOfThread(), chunk);
    RowStage& stage = shared_.stages[at_];
    __pipeline_memcpy_async(stage.queries_high.bytes + to, args_.first + at, 16, zeros);
    __pipeline_memcpy_async(stage.queries_low.bytes + to, args_.second + at, 16, zeros);
    __pipeline_commit();
  }

  // Returns a word whose low 16 bits are v + 2^15 + 2^7 for the integer v = 256 h + l of an
  // element: bytes h + 2^7 and l + 2^7. Adding 1.5 * 2^23 rounds the product.
  template <int kIndex>
  __device__ __forceinline__ uint32_t Biased(int r) const {
    const auto value = static_cast<float>(Row::template ValueOf<kIndex>(quads_[r]));
    return __float_as_uint(__fmaf_rn(value, factors_[r], 0x1.8p23f + 0x8080));
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  RowScanShared& shared_;
  const int steps_;  // of a pair
  const int query_;  // of which this thread copies a chunk
  const int first_step_;
  uint32_t pair_;
  const uint32_t pairs_step_;
  int step_ = 0;  // the next one
  int left_ = 0;  // steps of this pair
  int at_ = 0;    // stage of the next step
  int turn_ = 0;  // where the bounds of the next pair go
  Found next_;
  const char* rows_[kRowsOfThread];
  float factors_[kRowsOfThread];
  typename Row::Quad quads_[kRowsOfThread];
};

// Where a lane loads its part of a step of rows and of queries; see LoadCodes.
struct StepLanes {
  uint32_t rows;
  uint32_t queries;
  int queries_count;  // of the warp that exist; at most kQueriesOfWarp

  __device__ StepLanes(int first_row, int first_query, int count)
      : queries_count(min(count, kQueriesOfWarp)) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    rows = StepBytes::ChunkAt(first_row + lane % 16, lane / 16);
    queries = StepBytes::ChunkAt(first_query + lane / 16 * 8 + lane % 8, lane / 8 % 2);
  }
};

// The sums of a warp: <h_q, h>, and <h_q, l> + <l_q, h>. As those of AddProducts, for each 16
// queries eight.
struct RowSums {
  static constexpr int kSums = kQueriesOfWarp / 2;  // of a thread, for each row block
  int32_t high[kRowBlocksOfWarp][kSums];
  int32_t cross[kRowBlocksOfWarp][kSums];

  __device__ __forceinline__ void Add(const RowStage& stage, const StepLanes& lanes) {
    const uint32_t of_rows_high = SharedAddress(stage.rows_high.bytes) + lanes.rows;
    const uint32_t of_rows_low = SharedAddress(stage.rows_low.bytes) + lanes.rows;
    const uint32_t of_queries_high = SharedAddress(stage.queries_high.bytes) + lanes.queries;
    const uint32_t of_queries_low = SharedAddress(stage.queries_low.bytes) + lanes.queries;
    uint32_t rows_high[kRowBlocksOfWarp][4];
    uint32_t rows_low[kRowBlocksOfWarp][4];
#pragma unroll
    for (int block = 0; block < kRowBlocksOfWarp; ++block) {
      LoadMatrices(of_rows_high + block * kMmaRows * kRowStepDims, rows_high[block]);
      LoadMatrices(of_rows_low + block * kMmaRows * kRowStepDims, rows_low[block]);
    }
#pragma unroll
    for (int at = 0; at < kSums; at += 8) {
      if (2 * at >= lanes.queries_count) break;
      uint32_t queries_high[4];
      uint32_t queries_low[4];
      LoadMatrices(of_queries_high + 2 * at * kRowStepDims, queries_high);
      LoadMatrices(of_queries_low + 2 * at * kRowStepDims, queries_low);
      // Products of one sum lie apart, because each waits for the one before.
#pragma unroll
      for (int block = 0; block < kRowBlocksOfWarp; ++block) {
        AddPair(cross[block] + at, rows_low[block], queries_high);
      }
#pragma unroll
      for (int block = 0; block < kRowBlocksOfWarp; ++block) {
        AddPair(high[block] + at, rows_high[block], queries_high);
      }
#pragma unroll
      for (int block = 0; block < kRowBlocksOfWarp; ++block) {
        AddPair(cross[block] + at, rows_high[block], queries_low);
      }
    }
  }

  // Returns S of each row and query.
  __device__ __forceinline__ void Join(int block, int32_t (&sums)[kSums]) const {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sums[i] = 256 * high[block][i] + cross[block][i];
  }

 private:
  __device__ static void AddPair(int32_t* sums, const uint32_t (&rows)[4],
                                 const uint32_t (&queries)[4]) {
    AddProducts(sums, rows, queries[0], queries[1]);
    AddProducts(sums + 4, rows, queries[2], queries[3]);
  }
};

// Multiplies a stage's rows with kRowBatchQueries queries. Lists, for each query, the rows whose
// bound reaches its threshold. kChoose: of the rows that the query sees.
// Grid (lanes * query tiles), block 256. A block multiplies pairs of 64-row tiles, in steps of 32
// dimensions: while one is multiplied, the next one is loaded to registers, from where it goes to
// shared memory as integers. Reads the rows of the stage once for every 128 queries, and the
// queries once for every 128 rows.
//   1M x 1024 fp32, 1,024 queries: 6.3e15 operations; 49 GB through L2.
// Requires: sizeof(RowScanMemory) of dynamic shared memory; grid = a whole number of query tiles.
// Steps: 1 queries' terms, 2 for each pair: rows and queries step by step, products, bounds,
// survivors. Source: PTX ISA, "Warp-level matrix instructions".
template <typename Row, bool kAll, bool kChoose>
__global__ void __launch_bounds__(kRowBatchThreads, 1)
    BatchScanRowsKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                        const int query_tiles) {
  extern __shared__ __align__(128) unsigned char dynamic_bytes[];
  auto& shared = *reinterpret_cast<RowScanMemory<kChoose>*>(dynamic_bytes);
  const int first_query = static_cast<int>(blockIdx.x) % query_tiles * kRowBatchQueries;
  if (!AnyAlive(args, first_query, kRowBatchQueries)) return;
  const uint32_t first_pair = blockIdx.x / static_cast<uint32_t>(query_tiles);
  const uint32_t pairs_step = gridDim.x / static_cast<uint32_t>(query_tiles);
  if (2 * first_pair >= stage.tiles) return;
  shared.queries.Load(args, first_query);
  RowFeed<Row> feed(args, stage, shared, first_query, first_pair, pairs_step);
  feed.Fetch();
  feed.Store();

  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int first_row = warp % kWarpsOfRows * kRowsOfWarp;  // of the warp, in the pair
  const int warp_query = warp / kWarpsOfRows * kQueriesOfWarp;
  const int tile_of_pair = first_row / kBatchTileRows;
  QueriesView queries = shared.queries.From(warp_query, first_query);
  if constexpr (kChoose) queries.See(shared.tiles[warp]);
  const StepLanes lanes(first_row, warp_query, args.queries - queries.first);
  QueryTiles<kQueriesOfWarp> own_tiles(args, queries.first);
  SurvivorList list(args, shared.survivors[warp]);
  int at = 0;    // stage of shared memory
  int turn = 0;  // of the bounds
  for (uint32_t pair = first_pair; 2 * pair < stage.tiles; pair += pairs_step) {
    RowSums products = {};
    for (int step = 0; step < feed.steps(); ++step) {
      __pipeline_wait_prior(0);
      __syncthreads();
      feed.Fetch();
      products.Add(shared.stages[at], lanes);
      feed.Store();
      at = at + 1 == kRowStages ? 0 : at + 1;
    }
    const auto* const bounds =
        reinterpret_cast<const unsigned char*>(shared.bounds[turn] + tile_of_pair * kBatchTileRows);
    turn ^= 1;
    const uint32_t tile = 2 * pair + static_cast<uint32_t>(tile_of_pair);
    if (tile >= stage.tiles) continue;
    const uint32_t tile_index = TileAt(stage, tile);
    const TilePlace place(args.corpus, tile_index);
    const uint64_t absent = place.Absent();
    if constexpr (kChoose) own_tiles.Bring(place, queries.terms, shared.tiles[warp]);
#pragma unroll
    for (int block = 0; block < kRowBlocksOfWarp; ++block) {
      int32_t sums[RowSums::kSums];
      products.Join(block, sums);
      const MyRows mine(bounds, absent,
                        static_cast<uint32_t>(first_row % kBatchTileRows + block * kMmaRows));
      if constexpr (kAll) {
        KeepAll<kQueriesOfWarp, kChoose>(args, sums, mine, tile_index * kBatchTileRows, queries,
                                         int64_t{tile} * kBatchTileRows);
      } else {
        KeepSome<kQueriesOfWarp, kChoose>(sums, mine, tile_index * kBatchTileRows, queries, list);
      }
    }
  }
  if constexpr (!kAll) list.Flush();
}

template <typename Row, bool kChoose>
BatchScanRowsVariant BatchScanRowsOf(bool all) {
  return {all ? BatchScanRowsKernel<Row, true, kChoose> : BatchScanRowsKernel<Row, false, kChoose>,
          int{sizeof(RowScanMemory<kChoose>)}};
}

}  // namespace nearfield::gpu

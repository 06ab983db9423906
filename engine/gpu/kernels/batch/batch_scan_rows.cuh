// The scan of exact rows for a batch of queries, with mma.sync, for every supported card. Each row
// type is compiled in its own file.
//
// Rows are rounded to 16-bit integers on their way to shared memory (bound/integer_bound.h), and
// multiplied as int8 parts. The queries arrive as integers (batch_encode.cu).
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstdint>

#include "engine/bound/integer_bound.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"
#include "engine/gpu/kernels/batch/mma_products.cuh"
#include "engine/gpu/kernels/primitives/row_elements.cuh"
#include "engine/topk/warp.h"

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

// One step of `kCount` rows or queries: 32 bytes each. The two 16-byte chunks of every second four
// are exchanged, so that the same chunk of eight neighbors falls into different banks.
template <int kCount>
struct alignas(128) StepBytes {
  unsigned char bytes[kCount * kRowStepDims];

  __device__ static uint32_t ChunkAt(int index, int chunk) {
    return static_cast<uint32_t>(index * kRowStepDims + ((chunk ^ (index >> 2 & 1)) << 4));
  }
};

// Loads the step of 16 rows or queries from `first` on. The parts are as those of LoadCodes.
template <bool kRows, int kCount>
__device__ __forceinline__ void LoadStep(const StepBytes<kCount>& step, int first,
                                         uint32_t (&parts)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int group = kRows ? lane / 8 % 2 : lane / 16;
  const int half = kRows ? lane / 16 : lane / 8 % 2;
  LoadMatrices(SharedAddress(step.bytes) +
                   StepBytes<kCount>::ChunkAt(first + group * 8 + lane % 8, half),
               parts);
}

struct RowStage {
  StepBytes<kRowsOfBlock> rows_high;
  StepBytes<kRowsOfBlock> rows_low;
  StepBytes<kRowBatchQueries> queries_high;
  StepBytes<kRowBatchQueries> queries_low;
};

struct RowScanShared {
  RowStage stages[kRowStages];
  // Of two pairs of tiles: one is compared while the next one begins.
  bound::RowBound bounds[2][kRowsOfBlock];
  SharedQueries<kRowBatchQueries> queries;
  SurvivorRing survivors[kRowWarps];
};

// Brings the pairs of tiles of a block to shared memory, one step per call of Fetch and Store.
// Eight threads read 32 dimensions of a row; a thread does so for four rows.
template <typename Row>
class RowFeed {
 public:
  __device__ RowFeed(const BatchArgs& args, const BatchStage& stage, RowScanShared& shared,
                     int first_query, uint32_t first_pair, uint32_t pairs_step)
      : args_(args),
        stage_(stage),
        shared_(shared),
        steps_(args.code_stride / kRowStepDims),
        query_(min(first_query + static_cast<int>(threadIdx.x) / 2, args.queries - 1)),
        pair_(first_pair),
        pairs_step_(pairs_step) {
    Find(first_pair, next_);
    Begin();
  }

  // Requests the next step, if there is one. Requires: all threads have used what Store wrote two
  // steps before.
  __device__ __forceinline__ void Fetch() {
    if (step_ == steps_) {
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
    // The rows of the next pair are found early, so that their first step does not wait for it.
    if (step_ == 0 && HasPair(pair_ + pairs_step_)) Find(pair_ + pairs_step_, next_);
    ++step_;
  }

  // Stores what Fetch requested.
  __device__ __forceinline__ void Store() {
    if (!HasPair(pair_)) return;
    RowStage& to = shared_.stages[at_];
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const uint32_t bits[4] = {IntegerBits<0>(r), IntegerBits<1>(r), IntegerBits<2>(r),
                                IntegerBits<3>(r)};
      const int row = RowOf(r);
      const uint32_t offset =
          StepBytes<kRowsOfBlock>::ChunkAt(row, Part() / 4) + static_cast<uint32_t>(Part() % 4 * 4);
      *reinterpret_cast<uint32_t*>(to.rows_low.bytes + offset) = BytesOf<0>(bits, 0);
      *reinterpret_cast<uint32_t*>(to.rows_high.bytes + offset) = BytesOf<1>(bits, 128);
    }
    at_ = at_ + 1 == kRowStages ? 0 : at_ + 1;
  }

  __device__ int steps() const { return steps_; }

 private:
  static constexpr int kRowsOfThread = 4;
  static constexpr int kThreadsOfRow = kRowStepDims / 4;
  static_assert(kRowBatchThreads / kThreadsOfRow * kRowsOfThread == kRowsOfBlock, "all rows");
  static_assert(kRowBatchThreads == 2 * kRowBatchQueries, "two chunks of 16 dimensions a query");

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
  __device__ __forceinline__ bool HasPair(uint32_t pair) const { return 2 * pair < stage_.tiles; }

  // Tiles and rows that do not exist are replaced by the last ones.
  __device__ __forceinline__ void Find(uint32_t pair, Found& found) const {
#pragma unroll
    for (int r = 0; r < kRowsOfThread; ++r) {
      const int row = RowOf(r);
      const uint32_t tile = min(2 * pair + static_cast<uint32_t>(row / kBatchTileRows),
                                stage_.tiles - 1);
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
    step_ = 0;
  }

  __device__ __forceinline__ void FetchQueries() {
    const int chunk = static_cast<int>(threadIdx.x) % 2;
    const int64_t from =
        static_cast<int64_t>(query_) * args_.code_stride + step_ * kRowStepDims + chunk * 16;
    const uint32_t to =
        StepBytes<kRowBatchQueries>::ChunkAt(static_cast<int>(threadIdx.x) / 2, chunk);
    __pipeline_memcpy_async(shared_.stages[at_].queries_high.bytes + to, args_.first + from, 16);
    __pipeline_memcpy_async(shared_.stages[at_].queries_low.bytes + to, args_.second + from, 16);
    __pipeline_commit();
  }

  // Returns a float whose low 16 bits are the integer of an element: adding 1.5 * 2^23 rounds it.
  template <int kIndex>
  __device__ __forceinline__ uint32_t IntegerBits(int r) const {
    const auto value = static_cast<float>(Row::template ValueOf<kIndex>(quads_[r]));
    return __float_as_uint(__fmaf_rn(value, factors_[r], 0x1.8p23f));
  }
  // Returns byte kByte of each of the four words, to which `add` is added.
  template <int kByte>
  __device__ static uint32_t BytesOf(const uint32_t (&words)[4], uint32_t add) {
    constexpr uint32_t kBoth = kByte | (4 + kByte) << 4;
    return __byte_perm(__byte_perm(words[0] + add, words[1] + add, kBoth),
                       __byte_perm(words[2] + add, words[3] + add, kBoth), 0x5410);
  }

  const BatchArgs& args_;
  const BatchStage& stage_;
  RowScanShared& shared_;
  const int steps_;  // of a pair
  const int query_;  // whose chunks this thread copies
  uint32_t pair_;
  const uint32_t pairs_step_;
  int step_ = 0;
  int at_ = 0;    // stage of the next step
  int turn_ = 0;  // where the bounds of the next pair go
  Found next_;
  const char* rows_[kRowsOfThread];
  float factors_[kRowsOfThread];
  typename Row::Quad quads_[kRowsOfThread];
};

// The sums of a warp: <h_q, h>, and <h_q, l> + <l_q, h>. As those of AddProducts, for each 16
// queries eight.
struct RowSums {
  static constexpr int kSums = kQueriesOfWarp / 2;  // of a thread, for each row block
  int32_t high[kRowBlocksOfWarp][kSums];
  int32_t cross[kRowBlocksOfWarp][kSums];

  __device__ __forceinline__ void Add(const RowStage& stage, int first_row, int first_query) {
    uint32_t rows_high[kRowBlocksOfWarp][4];
    uint32_t rows_low[kRowBlocksOfWarp][4];
#pragma unroll
    for (int block = 0; block < kRowBlocksOfWarp; ++block) {
      LoadStep<true>(stage.rows_high, first_row + block * kMmaRows, rows_high[block]);
      LoadStep<true>(stage.rows_low, first_row + block * kMmaRows, rows_low[block]);
    }
#pragma unroll
    for (int at = 0; at < kSums; at += 8) {
      uint32_t queries_high[4];
      uint32_t queries_low[4];
      LoadStep<false>(stage.queries_high, first_query + 2 * at, queries_high);
      LoadStep<false>(stage.queries_low, first_query + 2 * at, queries_low);
#pragma unroll
      for (int block = 0; block < kRowBlocksOfWarp; ++block) {
        AddPair(high[block] + at, rows_high[block], queries_high);
        AddPair(cross[block] + at, rows_low[block], queries_high);
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
// bound reaches its threshold.
// Grid (lanes * query tiles), block 256. A block multiplies pairs of 64-row tiles, in steps of 32
// dimensions: while one is multiplied, the next one is loaded to registers, from where it goes to
// shared memory as integers. Reads the rows of the stage once for every 128 queries, and the queries
// once for every 128 rows.
//   1M x 1024 fp32, 1,024 queries: 6.3e15 operations; 49 GB through L2.
// Requires: grid = a whole number of query tiles. Steps: 1 queries' terms, 2 for each pair: rows
// and queries step by step, products, bounds, survivors. Source: PTX ISA, "Warp-level matrix
// instructions".
template <typename Row, bool kAll>
__global__ void __launch_bounds__(kRowBatchThreads, 1)
    BatchScanRowsKernel(const __grid_constant__ BatchArgs args, const BatchStage stage,
                        const int query_tiles) {
  __shared__ RowScanShared shared;
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
  const QueriesView queries = shared.queries.From(warp_query, first_query);
  SurvivorList list(args, shared.survivors[warp]);
  int at = 0;    // stage of shared memory
  int turn = 0;  // of the bounds
  for (uint32_t pair = first_pair; 2 * pair < stage.tiles; pair += pairs_step) {
    RowSums products = {};
    for (int step = 0; step < feed.steps(); ++step) {
      __pipeline_wait_prior(0);
      __syncthreads();
      feed.Fetch();
      products.Add(shared.stages[at], first_row, warp_query);
      feed.Store();
      at = at + 1 == kRowStages ? 0 : at + 1;
    }
    const auto* const bounds =
        reinterpret_cast<const unsigned char*>(shared.bounds[turn] + tile_of_pair * kBatchTileRows);
    turn ^= 1;
    const uint32_t tile = 2 * pair + static_cast<uint32_t>(tile_of_pair);
    if (tile >= stage.tiles) continue;
    const uint32_t tile_index = TileAt(stage, tile);
    const uint64_t absent = TilePlace(args.corpus, tile_index).Absent();
#pragma unroll
    for (int block = 0; block < kRowBlocksOfWarp; ++block) {
      int32_t sums[RowSums::kSums];
      products.Join(block, sums);
      const MyRows mine(bounds, absent,
                        static_cast<uint32_t>(first_row % kBatchTileRows + block * kMmaRows));
      if constexpr (kAll) {
        KeepAll<kQueriesOfWarp>(args, sums, mine, tile_index * kBatchTileRows, queries,
                                int64_t{tile} * kBatchTileRows);
      } else {
        KeepSome<kQueriesOfWarp>(sums, mine, tile_index * kBatchTileRows, queries, list);
      }
    }
  }
  if constexpr (!kAll) list.Flush();
}

// Returns the kernel of a row type. all: for the first stage.
template <typename Row>
BatchScanRowsPointer BatchScanRowsOf(bool all) {
  return all ? BatchScanRowsKernel<Row, true> : BatchScanRowsKernel<Row, false>;
}

}  // namespace nearfield::gpu

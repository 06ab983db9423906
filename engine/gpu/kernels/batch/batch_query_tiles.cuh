// Tiles of rows as single queries of a batch see them, for queries that share a scan though they
// see different rows or have row terms: the rows that a query does not see, one bit for each, and
// the value that its bounds must reach in the tile.
#pragma once

#include <cstdint>

#include "engine/cuda/warp.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/batch/batch_keep.cuh"
#include "engine/gpu/kernels/batch/batch_tiles.cuh"

namespace nearfield::gpu {

// A tile as a warp's queries see it, in shared memory.
template <int kQueries>
struct alignas(16) WarpTile {
  uint64_t absent[kQueries];
  float reach[kQueries];
};

// Brings tiles to shared memory. They come from memory, so the warp requests a tile before its
// products and stores it after these. Requires: the tiles ascend.
template <int kQueries>
class QueryTiles {
 public:
  // first_query: of the warp, in the batch.
  __device__ QueryTiles(const BatchArgs& args, int first_query)
      : args_(args), first_query_(first_query) {}

  __device__ __forceinline__ void Fetch(const TilePlace& place) {
    if (place.generation != generation_) {
      generation_ = place.generation;
#pragma unroll
      for (int i = 0; i < kMine; ++i) ends_[i] = 0;
    }
    const uint32_t word = place.slot / kBatchTileRows;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (word >= ends_[i]) FindWords(i, word);
      absent_[i] = words_[i] != nullptr     ? words_[i][word]
                   : (fills_ >> i & 1) != 0 ? ~uint64_t{0}
                                            : 0;
    }
    if (args_.reach == nullptr) return;
    const int64_t tile = (place.generation->rows_begin + place.slot) / kBatchTileRows;
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (Has(i)) reach_[i] = args_.reach[tile * args_.queries + first_query_ + Mine(i)];
    }
  }

  __device__ __forceinline__ void Bring(const TilePlace& place, const QueryTerms* terms,
                                        WarpTile<kQueries>& to) {
    Fetch(place);
    Store(terms, to);
  }
  // Requires: all lanes call. terms: of the warp's queries.
  __device__ __forceinline__ void Store(const QueryTerms* terms, WarpTile<kQueries>& to) const {
    __syncwarp();  // all lanes have used what is stored there
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (Mine(i) >= kQueries) continue;
      to.absent[Mine(i)] = absent_[i];
      to.reach[Mine(i)] = args_.reach != nullptr && Has(i) ? reach_[i] : terms[Mine(i)].reach;
    }
    __syncwarp();
  }

 private:
  static constexpr int kMine = (kQueries + kWarp - 1) / kWarp;

  // The lane's query number i, among those of the warp.
  __device__ static int Mine(int i) { return i * kWarp + static_cast<int>(threadIdx.x) % kWarp; }
  __device__ bool Has(int i) const {
    return Mine(i) < kQueries && first_query_ + Mine(i) < args_.queries;
  }

  // Finds where the words of a query's rows are, beginning with `word`, up to the end of a slab.
  __device__ void FindWords(int i, uint32_t word) {
    words_[i] = nullptr;
    ends_[i] = 0xffffffffu;
    fills_ &= ~(1u << i);
    if (!Has(i)) {
      fills_ |= 1u << i;
      return;
    }
    if (args_.absent == nullptr) return;
    const auto generation = generation_ - args_.corpus.generations;
    const AbsentView& view =
        args_.absent[int64_t{first_query_ + Mine(i)} * args_.corpus.count + generation];
    if (view.all != 0) {
      fills_ |= 1u << i;
      return;
    }
    const TombstoneView& rows = view.rows;
    if (rows.bits.slabs == nullptr || word >= rows.words_count) return;
    const int64_t at = rows.words_offset + int64_t{8} * word;
    const int64_t slab_end = ((at >> rows.bits.slab_shift) + 1) << rows.bits.slab_shift;
    const int64_t end = min(rows.words_count, (slab_end - rows.words_offset) / 8);
    words_[i] = rows.bits.at<const uint64_t>(at) - word;
    ends_[i] = static_cast<uint32_t>(end);
  }

  const BatchArgs& args_;
  const int first_query_;
  const CodedGeneration* generation_ = nullptr;
  const uint64_t* words_[kMine];  // by tile of the generation; null: all have the same value
  uint32_t ends_[kMine];          // the tiles before it are found
  uint32_t fills_ = 0;            // the value, one bit for each of the lane's queries
  uint64_t absent_[kMine];
  float reach_[kMine];
};

// The part of a block's shared memory for the tiles of its warps, as a base of it; empty if no
// query sees a tile differently.
template <int kQueries, int kWarps, bool kChoose>
struct TilesOfWarps {
  WarpTile<kQueries> tiles[kWarps];
};
template <int kQueries, int kWarps>
struct TilesOfWarps<kQueries, kWarps, false> {};

}  // namespace nearfield::gpu

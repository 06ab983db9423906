#include "engine/cpu/listed_search.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/cpu/code_queries.h"
#include "engine/cpu/final_scores.h"
#include "engine/cpu/first_error.h"
#include "engine/cpu/group_search.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/row_planes.h"
#include "engine/cpu/workspace.h"
#include "engine/score/arithmetic_mode.h"
#include "engine/score/order.h"

namespace nearfield::cpu {
namespace {

// One thread scans about this many codes in the time that scoring one row at a random address
// takes.
constexpr int64_t kScannedPerListed = 24;
// Rows per chunk, and maximum number of keys before they are sorted.
constexpr int64_t kChunkRows = 128;
constexpr int64_t kKeysMax = int64_t{1} << 20;
// Multiplications that justify waking one more thread.
constexpr int64_t kWorkAThread = 200'000;

// Some listed rows of one generation, and the position of their keys.
struct Chunk {
  size_t generation = 0;
  absl::Span<const uint32_t> slots;
  int64_t keys_at = 0;
};

std::vector<Chunk> CutIntoChunks(absl::Span<const backend::GenerationView> generations) {
  std::vector<Chunk> chunks;
  int64_t keys_at = 0;
  for (size_t g = 0; g < generations.size(); ++g) {
    absl::Span<const uint32_t> rest = generations[g].live_slots;
    while (!rest.empty()) {
      const absl::Span<const uint32_t> slots = rest.subspan(0, kChunkRows);
      chunks.push_back({.generation = g, .slots = slots, .keys_at = keys_at});
      keys_at += static_cast<int64_t>(slots.size());
      rest.remove_prefix(slots.size());
    }
  }
  return chunks;
}

class ListedSearch {
 public:
  ListedSearch(const GenerationScan::Context& context, const backend::RowFormat& format,
               absl::Span<const backend::GenerationView> generations)
      : context_(context),
        format_(format),
        generations_(generations),
        chunks_(CutIntoChunks(generations)) {
    for (const Chunk& chunk : chunks_) rows_count_ += static_cast<int64_t>(chunk.slots.size());
  }

  int64_t rows_count() const { return rows_count_; }

  // Computes the keys of queries [first, first + count) of the tile, [count][rows_count()].
  absl::Status Score(const backend::QueryTile& tile, int64_t first, int64_t count) {
    Widen(tile.queries + first * format_.dim, count);
    keys_.resize(static_cast<size_t>(count * rows_count_));
    const int64_t items = count * static_cast<int64_t>(chunks_.size());
    const int64_t work = count * rows_count_ * PaddedDim(format_.dim);
    const auto participants = static_cast<int32_t>(
        std::clamp<int64_t>(work / kWorkAThread, 1, context_.pool->threads_count()));
    std::atomic<int64_t> next{0};
    std::atomic<bool> cancelled{false};
    FirstError error;
    context_.pool->Run(participants, [&](int32_t worker) {
      if (!error.Check(score::CheckArithmeticMode())) return;
      for (int64_t item = next.fetch_add(1); item < items; item = next.fetch_add(1)) {
        if (worker == 0 && tile.cancelled && tile.cancelled()) cancelled = true;
        if (cancelled) return;
        const auto chunks = static_cast<int64_t>(chunks_.size());
        const int64_t query = item / chunks;
        const Chunk& chunk = chunks_[static_cast<size_t>(item % chunks)];
        const size_t place = static_cast<size_t>(first + query);
        ScoreChunk(query, chunk,
                   {tile.terms.empty() ? nullptr : tile.terms[place], chunk.generation});
      }
    });
    if (!error.status().ok()) return error.status();
    return cancelled ? absl::CancelledError("the search was cancelled") : absl::OkStatus();
  }

  // Stores the best k of each generation for a query that Score() has scored, at `place` of *best.
  void Take(int64_t query, int32_t k, size_t place, backend::RankedLists* best) {
    uint64_t* keys = keys_.data() + query * rows_count_;
    for (size_t g = 0; g < generations_.size(); ++g) {
      const auto count = static_cast<int64_t>(generations_[g].live_slots.size());
      const int64_t kept = std::min<int64_t>(k, count);
      std::partial_sort(keys, keys + kept, keys + count, std::greater<>());
      best->Assign(place, g, {keys, static_cast<size_t>(kept)});
      keys += count;
    }
  }

 private:
  // Converts queries to fp64, padded with zeros; computes S(q,q) for cosine.
  void Widen(const float* queries, int64_t count) {
    const int32_t dim_padded = PaddedDim(format_.dim);
    float* const padded = padded_.Ensure(dim_padded);
    double* wide = wide_.Ensure(count * dim_padded);
    squares_.resize(static_cast<size_t>(count));
    for (int64_t q = 0; q < count; ++q, queries += format_.dim, wide += dim_padded) {
      std::fill(std::copy(queries, queries + format_.dim, wide), wide + dim_padded, 0.0);
      if (format_.metric != Metric::kCosine) continue;
      squares_[static_cast<size_t>(q)] =
          QuerySquare(*context_.kernels, queries, format_.dim, padded);
    }
  }

  void ScoreChunk(int64_t query, const Chunk& chunk, const FinalScores& finals) {
    const auto& planes = static_cast<const CpuRowPlanes&>(*generations_[chunk.generation].planes);
    alignas(64) double sums[kChunkRows];
    const ListedRows rows = {.plane = planes.tile(0, static_cast<int32_t>(kRowGroup)),
                             .slots = chunk.slots.data(),
                             .count = static_cast<int32_t>(chunk.slots.size())};
    const bool distances = format_.metric == Metric::kL2;
    context_.kernels->scan_listed(rows, distances ? SumKind::kSquaredDistance : SumKind::kProduct,
                                  wide_.get() + query * PaddedDim(format_.dim), sums);
    uint64_t* const keys = keys_.data() + query * rows_count_ + chunk.keys_at;
    for (size_t i = 0; i < chunk.slots.size(); ++i) {
      const uint32_t slot = chunk.slots[i];
      const float score =
          planes.Score(format_.metric, sums[i], squares_[static_cast<size_t>(query)], slot);
      keys[i] = score::OrderKey(finals.OfRow(slot).Of(score), planes.ranks()[slot]);
    }
  }

  const GenerationScan::Context& context_;
  const backend::RowFormat& format_;
  const absl::Span<const backend::GenerationView> generations_;
  const std::vector<Chunk> chunks_;
  int64_t rows_count_ = 0;
  ScratchBuffer<float> padded_;
  ScratchBuffer<double> wide_;
  std::vector<double> squares_;
  std::vector<uint64_t> keys_;
};

}  // namespace

bool PrefersListed(const backend::RowFormat& format,
                   absl::Span<const backend::GenerationView> generations,
                   absl::Span<const int32_t> k, int32_t threads_count) {
  int64_t listed = 0;
  int64_t rows = 0;
  for (const backend::GenerationView& view : generations) {
    if (static_cast<int64_t>(view.live_slots.size()) != view.rows_live) return false;
    listed += view.rows_live;
    rows += view.planes->rows_count();
  }
  const auto queries = static_cast<int64_t>(k.size());
  if (CodeQueries::InPanels(static_cast<int32_t>(queries))) {
    // Panels read only the codes of listed rows, which are smaller than the rows.
    const int32_t k_max = *std::max_element(k.begin(), k.end());
    if (GroupSearch::StartsWithCodes(format, listed, k_max, queries)) return false;
  }
  return listed * kScannedPerListed * std::min(threads_count, 4) <= rows;
}

absl::Status SearchListed(const GenerationScan::Context& context, const backend::RowFormat& format,
                          const QueryPart& part, backend::RankedLists* best,
                          backend::ScanCost* cost) {
  const backend::QueryTile& tile = *part.tile;
  ListedSearch search(context, format, part.generations);
  const auto queries = static_cast<int64_t>(tile.k.size());
  const int64_t at_once =
      std::max<int64_t>(1, kKeysMax / std::max<int64_t>(1, search.rows_count()));
  for (int64_t first = 0; first < queries; first += at_once) {
    const int64_t count = std::min(at_once, queries - first);
    ABSL_RETURN_IF_ERROR(search.Score(tile, first, count));
    for (int64_t i = 0; i < count; ++i) {
      const auto query = static_cast<size_t>(first + i);
      search.Take(i, tile.k[query], part.places[query], best);
    }
  }
  const int64_t row_bytes = int64_t{PaddedDim(format.dim)} * BytesPerElement(format.row_type);
  cost->candidates += queries * search.rows_count();
  cost->bytes_read += queries * search.rows_count() * row_bytes;
  return absl::OkStatus();
}

}  // namespace nearfield::cpu

// Reference answers for the CPU backend, computed with engine/score alone: one row, one query and
// one dimension at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "tests/engine/prelude.h"

namespace nearfield::testing {

// Returns the sum over all dimensions. row: [dim], decoded to float.
double ReferenceSum(cpu::SumKind kind, const std::vector<float>& row,
                    absl::Span<const float> query);
float ReferenceScore(Metric metric, const std::vector<float>& row, absl::Span<const float> query);

// A generation on the host: its appended rows and its deleted slots.
struct HostGeneration {
  Corpus corpus;
  std::vector<uint32_t> ranks;          // a permutation
  std::vector<uint64_t> deleted_words;  // empty: no row is deleted
  int64_t rows_live = 0;

  bool deleted(int64_t slot) const {
    return !deleted_words.empty() &&
           ((deleted_words[static_cast<size_t>(slot / 64)] >> (slot % 64)) & 1) != 0;
  }
};

enum class RankOrder : uint8_t { kShuffled, kAscending, kDescending };

HostGeneration MakeGeneration(Corpus corpus, RankOrder order, bool with_deletions, Random& random);

// The live rows of a generation, decoded once for many queries.
class ReferenceRows {
 public:
  explicit ReferenceRows(const HostGeneration& generation);

  // Returns the k best rows in order: by their final scores if the query has `terms`, in which this
  // is generation `number`. Without the rows whose bits are set in `absent`, if there are bits.
  std::vector<backend::RankedScore> Top(absl::Span<const float> query, int64_t k,
                                        const backend::TermSource* terms = nullptr,
                                        size_t number = 0,
                                        absl::Span<const uint64_t> absent = {}) const;

 private:
  struct Row {
    std::vector<float> elements;
    double squared = 0;  // S(x,x), if the metric needs it
    uint32_t rank = 0;
    uint32_t slot = 0;
  };
  Metric metric_;
  std::vector<Row> rows_;
};

inline std::vector<backend::RankedScore> ReferenceTop(const HostGeneration& generation,
                                                      absl::Span<const float> query, int64_t k) {
  return ReferenceRows(generation).Top(query, k);
}

// A generation that was loaded into a backend.
struct LoadedGeneration {
  std::unique_ptr<backend::RowPlanes> planes;
  std::unique_ptr<backend::Tombstones> tombstones;
  backend::GenerationView view;
};
LoadedGeneration Load(backend::Backend& backend, const HostGeneration& generation,
                      const CollectionSpec& spec);
inline LoadedGeneration Load(backend::Backend& backend, const HostGeneration& generation) {
  return Load(backend, generation, generation.corpus.spec);
}

// Returns the format of a collection. kAuto selects rows here.
backend::RowFormat FormatOf(const CollectionSpec& spec);

// Returns the queries [k.size(), dim] of a search, with the k of each. They must outlive it.
inline backend::QueryTile TileOf(absl::Span<const float> queries, absl::Span<const int32_t> k) {
  return {.queries = queries.data(), .k = k};
}

// Returns a name for use in test names.
inline const char* Name(ScanChoice scan) { return scan == ScanChoice::kInt8 ? "int8" : "rows"; }

}  // namespace nearfield::testing

namespace nearfield {

using testing::HostGeneration;
using testing::LoadedGeneration;
using testing::RankOrder;

}  // namespace nearfield

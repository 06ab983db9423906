// GroupSearch: searches all generations for a group of queries: by codes if the collection has them
// and they help, else by a row scan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/cpu/code_queries.h"
#include "engine/cpu/generation_scan.h"

namespace nearfield::cpu {

// Reused for each group, so that it keeps its memory. Requires: the caller holds
// SharedThreads::turn.
class GroupSearch {
 public:
  explicit GroupSearch(const GenerationScan::Context& context) : context_(context) {}

  struct Task {
    backend::RowFormat format;
    absl::Span<const backend::GenerationView> generations;
    const float* queries = nullptr;  // [k.size(), dim]
    absl::Span<const int32_t> k;
    absl::Span<const backend::TermSource* const> terms;  // as backend::QueryTile::terms
    absl::Span<const backend::Views> views;              // as backend::QueryTile::views
    absl::Span<const size_t> places;                     // of the queries in the results
    const std::function<bool()>* cancelled = nullptr;
  };
  // Fills the lists of the group as backend::Backend::Search and adds to *cost. Errors: as
  // GenerationScan::Run.
  absl::Status Run(const Task& task, backend::RankedLists* best, backend::ScanCost* cost);

  // Returns how many of the first k.size() queries fit in one task: they share the L2 cache and the
  // memory for lists.
  static int64_t QueriesTogether(const backend::RowFormat& format, absl::Span<const int32_t> k);

  // Returns true if a query with this k, one of queries_count together, starts with a code scan.
  static bool StartsWithCodes(const backend::RowFormat& format, int64_t rows_live, int32_t k,
                              int64_t queries_count);

 private:
  absl::Status Begin(const Task& task);
  absl::Status SearchCodes(const Task& task, size_t generation, backend::RankedLists* best,
                           backend::ScanCost* cost);
  absl::Status SearchRows(const Task& task, size_t generation, backend::RankedLists* best,
                          backend::ScanCost* cost);
  // Packs the queries of rows_queries_ for a row scan.
  void PackRowsQueries(const Task& task);
  void CutAtFloors(const Task& task, backend::RankedLists* best, backend::ScanCost* cost);

  const GenerationScan::Context context_;
  CodeQueries queries_;
  bool codes_ = false;                 // at least one query is searched by codes
  bool cached_ = false;                // QueryGroup::cached, of this search
  bool backward_ = false;              // QueryGroup::backward, of this search
  std::vector<uint8_t> rows_only_;     // per query: searched by rows from the start
  std::vector<int32_t> rows_queries_;  // queries searched by rows, ascending
  int64_t rows_packed_ = 0;            // how many of rows_queries_ are packed
  std::vector<int32_t> rows_k_;
  std::vector<const backend::TermSource*> rows_terms_;
  std::vector<backend::Views> rows_views_;
  std::vector<float> rows_vectors_;
  std::vector<size_t> places_;  // in the results, of rows_queries_
};

}  // namespace nearfield::cpu

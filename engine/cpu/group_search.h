// A group of queries over all generations: by codes where a collection has them and they help, else
// over the rows.
#ifndef NEARFIELD_ENGINE_CPU_GROUP_SEARCH_H_
#define NEARFIELD_ENGINE_CPU_GROUP_SEARCH_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"
#include "engine/cpu/code_queries.h"
#include "engine/cpu/generation_scan.h"

namespace nearfield::cpu {

// Kept from one group to the next, for its memory. The caller holds SharedThreads::turn.
class GroupSearch {
 public:
  explicit GroupSearch(const GenerationScan::Context& context) : context_(context) {}

  struct Task {
    corpus::RowFormat format;
    absl::Span<const corpus::GenerationView> generations;
    const float* queries = nullptr;  // [k.size(), dim]
    absl::Span<const int32_t> k;
    const std::function<bool()>* cancelled = nullptr;
  };
  // best[query][generation], as corpus::BestRows. Adds to *cost. Errors: as GenerationScan::Run.
  absl::Status Run(const Task& task, absl::Span<std::vector<std::vector<corpus::RankedScore>>> best,
                   corpus::ScanCost* cost);

  // Queries of one task share the second-level cache and the lists' memory: how many of k.size()
  // do.
  static int64_t QueriesTogether(const corpus::RowFormat& format, absl::Span<const int32_t> k);

  // Whether a query with this k, one of queries_count together, is searched by codes at first.
  static bool StartsWithCodes(const corpus::RowFormat& format, int64_t rows_live, int32_t k,
                              int64_t queries_count);

 private:
  using Lists = absl::Span<std::vector<std::vector<corpus::RankedScore>>>;

  absl::Status Begin(const Task& task);
  absl::Status SearchCodes(const Task& task, size_t generation, Lists best, corpus::ScanCost* cost);
  absl::Status SearchRows(const Task& task, size_t generation, Lists best, corpus::ScanCost* cost);
  // The queries of rows_queries_, for a scan of rows.
  void PackRowsQueries(const Task& task);
  void CutAtFloors(Lists best, corpus::ScanCost* cost);

  const GenerationScan::Context context_;
  CodeQueries queries_;
  bool codes_ = false;                 // some query is searched by codes
  std::vector<uint8_t> rows_only_;     // a query: from the beginning on
  std::vector<int32_t> rows_queries_;  // those scanned over rows, ascending
  int64_t rows_packed_ = 0;            // how many of them are packed
  std::vector<int32_t> rows_k_;
  std::vector<float> rows_vectors_;
  std::vector<std::vector<corpus::RankedScore>*> outputs_;
};

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_GROUP_SEARCH_H_

// SearchJob: the checked arguments of one search, as the three strategies of GpuTopkEngine need
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/backend/query_views.h"
#include "engine/gpu/device_terms.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/memory/gpu_row_planes.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::gpu {

// Some queries of a job: their indexes, ascending.
using QuerySpan = absl::Span<const int64_t>;

// Returns how many queries, beginning with the first, are neighbors. Requires: there is one.
inline std::size_t LeadingNeighbors(QuerySpan queries) {
  std::size_t count = 1;
  while (count < queries.size() && queries[count] == queries[count - 1] + 1) ++count;
  return count;
}

struct SearchJob {
  backend::RowFormat format;
  RowShape shape;
  backend::Views views;                     // the generations, as this search sees them
  std::vector<const GpuRowPlanes*> planes;  // one per generation
  std::vector<TombstoneView> tombstones;    // one per generation
  std::vector<SlotList> live_slots;         // one per generation; empty if not listed
  bool listed = false;                      // only the listed slots are scanned
  std::vector<int64_t> rows;                // rows to scan per generation: 0 if no row is live
  int64_t rows_live = 0;                    // rows that can be in an answer
  std::vector<int64_t> scanned;             // indexes of the generations with rows to scan
  // Empty, or by query: the rows of each scanned generation that the query does not see, for the
  // queries that share a pass though they see different rows (ShareViews).
  std::vector<std::shared_ptr<const std::vector<AbsentView>>> absent;
  // Their vectors are null if the queries are on the device.
  const backend::QueryTile* queries = nullptr;
  // Not null: queries and answers are on the device (device_io.h).
  const backend::DeviceTile* device = nullptr;
  backend::QueryFault* fault = nullptr;
  // Not empty: answers are merged on the device and go to these places, by query.
  std::vector<AnswerPlace> places;
  int64_t k_max = 0;          // the largest k, if there are places
  AnswerArrays answers;       // as kernels address them
  AnswerArrays host_answers;  // the same memory on the host, if it is there
  // Row terms of each query, null if it has none; or empty: no query has any.
  std::vector<std::shared_ptr<const DeviceTerms>> terms;
  CodedCorpus corpus;  // the generations to scan; set for every path but ScanPath::kRows

  // Returns the row terms of a query, null if it has none.
  const DeviceTerms* TermsOf(int64_t query) const {
    return terms.empty() ? nullptr : terms[static_cast<std::size_t>(query)].get();
  }
  int64_t queries_count() const { return static_cast<int64_t>(queries->k.size()); }
  // Returns the rows that can be in the answer of a query.
  int64_t RowsLive(int64_t query) const {
    if (absent.empty()) return rows_live;
    return backend::RowsLive(queries->views[static_cast<std::size_t>(query)]);
  }
  // Returns true if the device merges the answers of `count` queries faster than the host.
  static bool WorthMerging(int64_t count, int64_t largest_k) {
    return count >= kQueriesToMergeMin || count * largest_k >= kRowsToMergeMin;
  }
  // Returns true if the answers of `count` queries are merged on the device.
  bool MergesOnDevice(int64_t count) const {
    return !places.empty() && (device != nullptr || queries->finish == backend::Finish::kAll ||
                               WorthMerging(count, k_max));
  }
  absl::Status CheckCancelled() const;
  // Returns true if the device can read the vectors of these queries in one piece.
  bool InQueryMemory(QuerySpan span) const {
    return queries->in_query_memory && LeadingNeighbors(span) == span.size();
  }
  // Calls body(i) for each i in [0, count), on the threads of the search if there are some and the
  // `bytes` that the loop moves justify it.
  absl::Status ForEachOnHost(int64_t count, int64_t bytes,
                             absl::FunctionRef<absl::Status(int64_t)> body) const;

 private:
  static constexpr int64_t kQueriesToMergeMin = 32;
  static constexpr int64_t kRowsToMergeMin = 1024;
};

// Queries [first, first + count) of a job.
struct QueryRange {
  int64_t first = 0;
  int64_t count = 0;
};

// The destination of a search.
struct SearchOutput {
  backend::RankedLists& best;
  backend::ScanCost cost;
};

// The arguments of backend::Backend::Search.
struct SearchArguments {
  const backend::RowFormat& format;
  absl::Span<const backend::GenerationView> generations;
  const backend::QueryTile& tile;
};

// Checks the arguments. The search sees the given generations, for all queries. Errors:
// InvalidArgument.
absl::StatusOr<SearchJob> MakeJob(const GpuCore& core, const backend::BackendInfo& info,
                                  const SearchArguments& arguments);
// Replaces the generations that the search sees. Errors: InvalidArgument.
absl::Status SetViews(const GpuCore& core, backend::Views views, SearchJob& job);
// Lets the queries of the groups share passes over the generations that the search sees: sets
// job.absent, and leaves out the generations of which none of them sees a row. Errors:
// InvalidArgument.
absl::Status ShareViews(const GpuCore& core, absl::Span<const backend::ViewGroup> groups,
                        SearchJob& job);

std::vector<int64_t> AllQueries(const SearchJob& job);
// Returns how many queries, beginning with the first, a strategy can take together: all, but on the
// device only neighbors.
int64_t TakenTogether(const SearchJob& job, QuerySpan queries);
// Returns the range of queries that are neighbors.
inline QueryRange RangeOf(QuerySpan neighbors) {
  return {.first = neighbors.front(), .count = static_cast<int64_t>(neighbors.size())};
}
// Return the largest k of all queries, or of some; 0 without queries.
int32_t LargestK(const SearchJob& job);
int32_t LargestK(const SearchJob& job, QuerySpan queries);

// Returns the end of the global row indices that the generations to scan take in a CodedCorpus.
int64_t RowIndexEnd(const SearchJob& job);
// Returns the work of scanning all rows for `queries` queries. Requires: a generation to scan.
plan::ScanWork WorkOf(const GpuCore& core, const SearchJob& job, int64_t queries);
CodedCorpus CorpusOf(const SearchJob& job);

// Call when the device has all work for some queries, and before it is awaited: says where their
// answers will be, if they are merged into memory of the host.
void PlaceFinished(const SearchJob& job, QuerySpan queries, backend::RankedLists& best);
// Gives a query the answer that was merged on the device into memory of the host.
void GiveFinished(const SearchJob& job, int64_t query, backend::RankedLists& best);

// Converts the keys that a scan of codes has found for a query into its lists. The keys are in
// order, best first; if the corpus has several generations, they include all ties of the k-th.
void TakeKeys(const SearchJob& job, int64_t query, absl::Span<const uint64_t> keys,
              backend::RankedLists& best);

}  // namespace nearfield::gpu

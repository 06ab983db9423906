#include "engine/search/device_search.h"

#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/search/resolve.h"
#include "engine/search/search_rows.h"

namespace nearfield {
namespace {

using backend::GenerationView;
using corpus::Corpus;
using corpus::CorpusSnapshot;

absl::Status CheckDeviceSearch(const CollectionSpec& spec, const SearchLimits& limits,
                               const DeviceSearch& search) {
  if (spec.id_type != IdType::kUint64) {
    return absl::FailedPreconditionError(
        "ids: a search on the device returns uint64 ids, and this collection has string ids; use "
        "Search");
  }
  ABSL_RETURN_IF_ERROR(CheckRange("queries_count", search.queries_count, 1, limits.batch_max));
  ABSL_RETURN_IF_ERROR(CheckRange("k", search.k, 1, limits.k_max));
  if (search.dim != spec.dim) {
    return MustBe("dim", absl::StrCat(search.dim), absl::StrCat(spec.dim));
  }
  if (search.score_threshold && std::isnan(*search.score_threshold)) {
    return ArgumentError("score_threshold", "not a number", "nan");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DeviceSearchResult> SearchCorpusOnDevice(const Corpus& corpus,
                                                        const SearchLimits& limits,
                                                        const DeviceSearch& search) {
  const auto begin = std::chrono::steady_clock::now();
  ABSL_RETURN_IF_ERROR(CheckDeviceSearch(corpus.spec(), limits, search));
  ABSL_RETURN_IF_ERROR(CheckCancelled(search.cancelled));
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const CorpusSnapshot> snapshot,
                        corpus.At(search.at.get()));
  ABSL_ASSIGN_OR_RETURN(const corpus::SearchedRows rows, corpus.Searched(snapshot, search.filter));
  const std::vector<GenerationView> views = rows.Views();
  const backend::DeviceTile tile = {
      .queries = search.queries,
      .query_type = search.query_type,
      .queries_count = search.queries_count,
      .k = search.k,
      .stream = search.stream,
      .score_min = search.score_threshold.value_or(-std::numeric_limits<float>::infinity()),
      .cancelled = search.cancelled,
      .scores = search.scores,
      .ids = search.ids,
      .counts = search.counts};
  backend::QueryFault fault;
  backend::ScanCost cost;
  const absl::Status status =
      corpus.device()->backend().SearchOnDevice(corpus.format(), views, tile, &fault, &cost);
  if (fault.query >= 0) return VectorError(fault.query, fault.dimension);
  if (!status.ok()) return corpus.device()->Observe(status);
  return DeviceSearchResult{
      .epoch = snapshot->epoch,
      .matched_rows = rows.rows_count(),
      .cost = CostOf(corpus, *snapshot,
                     {.scan = cost, .queries_count = search.queries_count, .begin = begin})};
}

}  // namespace nearfield

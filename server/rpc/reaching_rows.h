// FindReachingRows: finds all rows of a search that reach its score_threshold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "nearfield/engine/row_filter.h"
#include "server/convert/limits.h"
#include "server/rpc/search_rounds.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/search_request.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {

struct ReachingRows {
  SearchRounds rounds;
  SearchRequest search;               // one query with a score_threshold; `at` is set
  RequestLimits limits;               // more than page_rows_max rows are refused
  ByteAccount::Hold* hold = nullptr;  // grows by what the search remembers between its scans
  RequestRecord* record = nullptr;    // of the call
  RowFilter found;                    // the rows
  int64_t rows_count = 0;             // number of the rows
};

// Scans for k_max rows at a time, and calls `done` once, on any thread. Errors:
// ResourceExhausted (more than page_rows_max rows reach the threshold; no memory), those of a
// search.
void FindReachingRows(const std::shared_ptr<ReachingRows>& rows,
                      std::function<void(absl::Status)> done);

}  // namespace nearfield::server

// Searches a short list of rows of each generation by slot: scores each of them and scans nothing.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/cpu/generation_scan.h"
#include "engine/cpu/query_split.h"

namespace nearfield::cpu {

// Returns true if every generation with live rows lists them, and they are so few that scoring each
// for queries with these k costs less than a scan on `threads_count` threads.
bool PrefersListed(const backend::RowFormat& format,
                   absl::Span<const backend::GenerationView> generations,
                   absl::Span<const int32_t> k, int32_t threads_count);

// Fills *best as backend::Backend::Search and adds to *cost. Requires: the caller holds
// SharedThreads::turn; the part has no views. Errors: Cancelled.
absl::Status SearchListed(const GenerationScan::Context& context, const backend::RowFormat& format,
                          const QueryPart& part, backend::RankedLists* best,
                          backend::ScanCost* cost);

}  // namespace nearfield::cpu

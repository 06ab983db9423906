// Queries over few rows of a generation, by their slots: each is scored, nothing is scanned.
#ifndef NEARFIELD_ENGINE_CPU_LISTED_SEARCH_H_
#define NEARFIELD_ENGINE_CPU_LISTED_SEARCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/corpus/backend.h"
#include "engine/cpu/generation_scan.h"

namespace nearfield::cpu {

// Whether every generation with live rows lists them, and they are so few that scoring each for
// queries with these k costs less than a scan on `threads_count` threads.
bool PrefersListed(const corpus::RowFormat& format,
                   absl::Span<const corpus::GenerationView> generations,
                   absl::Span<const int32_t> k, int32_t threads_count);

// best[query][generation], as corpus::BestRows. The caller holds SharedThreads::turn. Adds to
// *cost. Errors: Cancelled.
absl::Status SearchListed(const GenerationScan::Context& context, const corpus::RowFormat& format,
                          absl::Span<const corpus::GenerationView> generations,
                          const corpus::QueryTile& tile, corpus::BestRows* best,
                          corpus::ScanCost* cost);

}  // namespace nearfield::cpu

#endif  // NEARFIELD_ENGINE_CPU_LISTED_SEARCH_H_

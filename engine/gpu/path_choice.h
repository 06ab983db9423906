// The choice of a search's path (plan::ScanPath): those that the format allows and the kernels
// serve, and the one that is expected to be the fastest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/query_views.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/search_job.h"
#include "engine/plan/scan_cost.h"

namespace nearfield::gpu {

// Returns the paths for some queries, at least one.
std::vector<plan::ScanPath> PathsOf(const GpuCore& core, const SearchJob& job, QuerySpan queries);
// Returns those that read exact rows.
std::vector<plan::ScanPath> RowPathsOf(const GpuCore& core, const SearchJob& job, int64_t queries);
// Returns those that queries which see different rows can take together; none, if their searches
// must be their own.
std::vector<plan::ScanPath> SharedPathsOf(const GpuCore& core, const SearchJob& job,
                                          QuerySpan queries);
// Returns the path for queries with row terms.
plan::ScanPath PathOfTerms(const GpuCore& core, const SearchJob& job, int64_t queries);

// Returns the one of the paths that is expected to be the fastest.
plan::ScanPath Fastest(const GpuCore& core, const SearchJob& job,
                       absl::Span<const plan::ScanPath> paths, QuerySpan queries);
// Keeps how long a search took, in microseconds, for later calls of Fastest.
void RecordTime(const GpuCore& core, const SearchJob& job, plan::ScanPath path, QuerySpan queries,
                double taken_us);

// Returns true if queries that a batch could not answer are faster together on `path` than one by
// one by scans of codes.
bool PrefersRows(const GpuCore& core, const SearchJob& job, plan::ScanPath path, int64_t queries);
// Limits the scan to the listed live rows, if they are few and that takes less time than the path
// of all rows.
void ChooseListed(const GpuCore& core, SearchJob& job, plan::ScanPath otherwise, int64_t queries);
// Sorts groups of queries so that the first ones are searched each on its own, and the others in
// one pass, on one of the shared paths. Returns how many are the first.
std::size_t ChooseAlone(const GpuCore& core, const SearchJob& job, QuerySpan queries,
                        absl::Span<const plan::ScanPath> shared,
                        std::vector<backend::ViewGroup>& groups);

}  // namespace nearfield::gpu

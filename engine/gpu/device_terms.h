// DeviceTerms: the row terms of one query, as the kernels of a search read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/gpu/kernels/terms/term_sums.h"
#include "engine/gpu/memory/gpu_number_columns.h"

namespace nearfield::gpu {

struct SearchJob;

struct DeviceTerms {
  TermList list;
  std::vector<TermColumns> columns;  // by generation of the job; not set where no row is scanned
  std::vector<GpuNumberColumns::Column> memory;  // of the columns
};

// Brings the terms of the first of some queries to the device, as job.terms, and releases those of
// others: as many as there is memory for. Returns their number, at least one. Requires: each of the
// queries has terms. Errors: ResourceExhausted (too little memory for the numbers of one query),
// Unavailable.
absl::StatusOr<std::size_t> TakeTerms(GpuNumberColumns& columns, absl::Span<const int64_t> queries,
                                      SearchJob& job);

// Returns the arguments that compute the sums of all rows of job.corpus into `sums`.
TermSumsArgs SumsArgs(const SearchJob& job, const DeviceTerms& terms, double* sums);

// Returns the most bytes that StageTerms writes for a query of the job; 0 without row terms.
int64_t BatchTermsBytes(const SearchJob& job);
// Writes the row terms of some queries to `host`, for kernels that read the same bytes at `device`
// later: their lists, and then for each list its terms and the columns of each term. Returns the
// number of bytes. Requires: job.corpus is set.
int64_t StageTerms(const SearchJob& job, absl::Span<const int64_t> queries, char* host,
                   const char* device);

}  // namespace nearfield::gpu

// SingleSearch: the strategy that scans codes for one query at a time (engine/DESIGN.md, "Certified
// bound"). A query takes one launch. If it has too many candidates for the available room, the scan
// is repeated with a tighter threshold; if there are still too many, it is left to RowSearch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/bound/query_encoder.h"
#include "engine/bound/rotation.h"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/search_job.h"

namespace nearfield::gpu {

// Thread safety: one search at a time; it uses the workspace of the core.
class SingleSearch {
 public:
  explicit SingleSearch(GpuCore& core) : core_(core) {}

  // Returns true if the workspace has room for the bounds of all rows, and with row terms also for
  // their sums.
  static bool HasRoom(const GpuCore& core, int64_t row_index_end, bool terms);

  // Answers the queries at these places. Appends those that had too many candidates to `left`.
  // Requires: job.corpus is set. Errors: Cancelled, Unavailable.
  absl::Status Search(const SearchJob& job, absl::Span<const int64_t> queries, SearchOutput& out,
                      std::vector<int64_t>& left);

 private:
  // Returns the arguments that all queries of a search share.
  OneQueryArgs SharedArgs(const SearchJob& job) const;
  // Returns false if the query had too many candidates.
  absl::StatusOr<bool> SearchOne(const SearchJob& job, int64_t query, OneQueryArgs& args,
                                 SearchOutput& out);
  // Enqueues the sums of the query's row terms, if it has some.
  absl::Status EnqueueSums(const SearchJob& job, int64_t query, OneQueryArgs& args);
  // Stores the codes and the vector of a query where the kernel reads them.
  absl::Status StageCodes(const SearchJob& job, const float* vector, OneQueryArgs& args);
  // As StageCodes, for a query that is on the device: encodes it there.
  absl::Status StageOnDevice(const SearchJob& job, int64_t query, OneQueryArgs& args);
  // Returns one of the keys that the last launch found.
  absl::StatusOr<uint64_t> KeyAt(const SearchJob& job, uint32_t place);
  // Converts the first keys that the last launch found into the answer.
  absl::Status GiveAnswer(const SearchJob& job, int64_t query, uint32_t keys_count,
                          SearchOutput& out);
  // Returns the rotation of this format. Caches the last one.
  const bound::Rotation& Rotation(const backend::RowFormat& format);
  absl::StatusOr<OneQueryOutcome> Run(const SearchJob& job, OneQueryArgs& args);
  absl::Status AwaitOutcome(uint32_t launch);

  GpuCore& core_;
  bound::QueryEncoder encoder_;
  std::unique_ptr<bound::Rotation> rotation_;
  uint64_t rotation_seed_ = 0;
  uint32_t launches_ = 0;
};

}  // namespace nearfield::gpu

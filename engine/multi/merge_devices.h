// MergeDevices: joins the lists that several devices found for one query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/ranked_lists.h"

namespace nearfield::multi {

// The lists of one device. Its generations are some of those of the search.
struct DeviceLists {
  const backend::RankedLists* lists = nullptr;
  std::vector<size_t> generations;  // of the search, by generation of the device's lists
  // By generation of the device's lists: ranks in the generation by rank on the device; empty if
  // both are the same.
  std::vector<absl::Span<const uint32_t>> ranks;
};

// Writes the rows with the k best scores of all devices, and all rows with the k-th score, to the
// lists of `query` in *best, at most k for each generation, by descending score. Requires: each
// device's lists hold its k best rows.
void MergeDevices(absl::Span<const DeviceLists> devices, size_t query, int32_t k,
                  backend::RankedLists* best);

// Memory for the finished rows of a search.
struct FinishedMemory {
  std::shared_ptr<char[]> memory;
  uint64_t* ids = nullptr;
  float* scores = nullptr;
  std::vector<int64_t> places;  // by query: its first row

  // Makes memory for k[query] rows of each query.
  static FinishedMemory Of(absl::Span<const int32_t> k);
};

// Merges the finished rows of all devices by (score, id), and finishes `query` in *best with the
// first k, which it writes to `to`. Requires: every device has finished the query.
void JoinFinished(absl::Span<const DeviceLists> devices, size_t query, int32_t k,
                  const FinishedMemory& to, backend::RankedLists* best);

}  // namespace nearfield::multi

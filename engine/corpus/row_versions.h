// RowVersions: what updates have changed of the rows of one generation: ordinals and payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/memory_budget.h"

namespace nearfield::corpus {

struct UpdatedPayload {
  // Bytes of host memory in addition to those of the value, at most.
  static constexpr int64_t kBytes = 96;

  MemoryReservation host;
  std::string value;
};

// An updated row. It has a new ordinal, so the attributes of each of its versions are those of one
// ordinal, and a filter or a read of any epoch finds the version that this epoch shows.
struct RowVersion {
  uint32_t slot = 0;
  uint32_t ordinal = 0;
  std::shared_ptr<const UpdatedPayload> payload;  // null: as before, at last the generation's own
};

// Immutable. The versions of successive epochs share the pages of rows that did not change.
class RowVersions {
 public:
  // Returns `before` (null: no row was updated) with `changes`, whose slots ascend. Errors:
  // ResourceExhausted (host memory). Cost: a copy of the pages with changes, and of one pointer for
  // each page.
  static absl::StatusOr<std::shared_ptr<const RowVersions>> Make(const RowVersions* before,
                                                                 std::vector<RowVersion> changes,
                                                                 MemoryBudget& host);

  // Returns the version of a row; null if it was never updated.
  const RowVersion* Find(uint32_t slot) const;
  int64_t rows_count() const { return rows_count_; }          // updated rows
  int64_t payloads_count() const { return payloads_count_; }  // rows with a new payload
  int64_t payload_bytes() const { return payload_bytes_; }    // of host memory of these
  int64_t bytes() const;                                      // of host memory

  // Adds the bytes of host memory of the pages and payloads that are not in `counted`, and adds
  // these to it.
  int64_t CountBytes(std::unordered_set<const void*>* counted) const;

  // Calls visit(version) for each updated row, by slot.
  template <typename Visit>
  void ForEach(Visit visit) const {
    ForEachIn(0, static_cast<int64_t>(pages_.size() * kPageRows), visit);
  }
  // The same for the rows of slots [begin, end).
  template <typename Visit>
  void ForEachIn(int64_t begin, int64_t end, Visit visit) const {
    for (auto place = static_cast<size_t>(begin / kPageRows);
         place < pages_.size() && static_cast<int64_t>(place * kPageRows) < end; ++place) {
      if (pages_[place] == nullptr) continue;
      for (const RowVersion& version : pages_[place]->versions) {
        if (begin <= version.slot && version.slot < end) visit(version);
      }
    }
  }

 private:
  static constexpr uint32_t kPageRows = 512;
  struct Page {
    MemoryReservation host;
    std::vector<RowVersion> versions;  // by slot
    int64_t payloads_count = 0;
    int64_t payload_bytes = 0;
  };
  static absl::StatusOr<std::shared_ptr<const Page>> MakePage(const Page* before,
                                                              absl::Span<RowVersion> changes,
                                                              MemoryBudget& host);
  void Count(const Page& page, int64_t sign);

  std::vector<std::shared_ptr<const Page>> pages_;  // page p: slots p * kPageRows and following
  int64_t rows_count_ = 0;
  int64_t payloads_count_ = 0;
  int64_t payload_bytes_ = 0;
  int64_t page_bytes_ = 0;
};

}  // namespace nearfield::corpus

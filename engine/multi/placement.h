// Placement: which device holds each row of a generation whose rows are spread over several.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace nearfield::multi {

// A row of the generation is row `local` of a device.
struct Place {
  uint32_t device = 0;
  uint32_t local = 0;
};

// Grows by appending, then does not change. Takes a few bytes for each run of rows on one device.
class Placement {
 public:
  // Rows [slot, slot + count) of the generation are rows [local, local + count) of the device.
  struct Run {
    uint32_t slot = 0;
    uint32_t local = 0;
    uint32_t count = 0;
    uint32_t device = 0;
  };

  explicit Placement(size_t devices_count) : rows_of_(devices_count) {}

  // Puts the next rows on a device.
  void Append(size_t device, int64_t count);

  size_t devices_count() const { return rows_of_.size(); }
  int64_t rows_count() const { return rows_count_; }
  int64_t rows_of(size_t device) const { return rows_of_[device]; }
  absl::Span<const Run> runs() const { return runs_; }

  // Requires: slot < rows_count().
  Place Of(uint32_t slot) const;
  // Returns the run that holds the slot. Requires: slot < rows_count().
  const Run& RunOf(uint32_t slot) const;

  // Returns, for each device, the bits of its rows: bit (i % 64) of word i / 64 is that of its row
  // i. words: the bits of the generation.
  std::vector<std::vector<uint64_t>> Split(absl::Span<const uint64_t> words) const;

 private:
  std::vector<Run> runs_;  // by slot
  std::vector<int64_t> rows_of_;
  int64_t rows_count_ = 0;
};

}  // namespace nearfield::multi

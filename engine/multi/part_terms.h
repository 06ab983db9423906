// PartTerms: the row terms of a query, as one of several devices reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/multi/placement.h"

namespace nearfield::multi {

// A device, and the generations of a search of which it has rows, by their positions.
struct DevicePart {
  size_t device = 0;
  absl::Span<const size_t> generations;
};

// The rows of a search on one device: where its slots are in the generations of the search.
class PartRows {
 public:
  // generations: of the search.
  PartRows(absl::Span<const backend::GenerationView> generations, const DevicePart& part);

  // Returns the generation of the search that is number `part` on the device.
  size_t GenerationOf(size_t part) const { return parts_[part].generation; }
  uint32_t SlotOf(size_t part, uint32_t local) const;
  // Calls visit(slot, count) for each run of slots that rows [begin, begin + count) of the device
  // have in the generation, in the order of the device.
  template <typename Visit>
  void ForEachRun(size_t part, int64_t begin, int64_t rows_count, Visit visit) const {
    const std::vector<Placement::Run>& runs = parts_[part].runs;
    const int64_t end = begin + rows_count;
    for (size_t i = RunOf(part, begin); i < runs.size() && runs[i].local < end; ++i) {
      const int64_t first = std::max<int64_t>(begin, runs[i].local);
      const int64_t last = std::min<int64_t>(end, int64_t{runs[i].local} + runs[i].count);
      visit(runs[i].slot + (first - runs[i].local), last - first);
    }
  }

 private:
  struct Part {
    size_t generation = 0;
    std::vector<Placement::Run> runs;  // on the device, by local slot
  };
  // Returns the run that holds a row of the device.
  size_t RunOf(size_t part, int64_t local) const;

  std::vector<Part> parts_;  // by generation of the device
};

// Borrows both arguments.
class PartTerms final : public backend::TermSource {
 public:
  PartTerms(const backend::TermSource& whole, const PartRows& rows) : whole_(whole), rows_(rows) {}

  double score_weight() const override { return whole_.score_weight(); }
  double SumOf(size_t generation, uint32_t slot) const override;
  double SumUpper(size_t generation, int64_t begin, int64_t rows_count) const override;
  size_t terms_count() const override { return whole_.terms_count(); }
  const TermParameters& parameters(size_t term) const override { return whole_.parameters(term); }
  // The sources of the whole generation: a device has one part of it.
  backend::NumbersSource SourceOf(size_t term, size_t generation) const override {
    return whole_.SourceOf(term, rows_.GenerationOf(generation));
  }
  void CopyNumbers(size_t term, size_t generation, int64_t begin,
                   absl::Span<double> numbers) const override;

 private:
  const backend::TermSource& whole_;
  const PartRows& rows_;
};

// The terms of all queries of a search on one device.
class PartTermsOfQueries {
 public:
  // whole: QueryTile::terms. generations: of the search.
  PartTermsOfQueries(absl::Span<const backend::TermSource* const> whole,
                     absl::Span<const backend::GenerationView> generations, const DevicePart& part);
  PartTermsOfQueries(const PartTermsOfQueries&) = delete;
  PartTermsOfQueries& operator=(const PartTermsOfQueries&) = delete;

  absl::Span<const backend::TermSource* const> terms() const { return terms_; }

 private:
  const PartRows rows_;
  std::vector<std::unique_ptr<PartTerms>> parts_;
  std::vector<const backend::TermSource*> terms_;
};

}  // namespace nearfield::multi

#include "engine/multi/part_terms.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "engine/base/check.h"
#include "engine/multi/multi_row_planes.h"

namespace nearfield::multi {

PartRows::PartRows(absl::Span<const backend::GenerationView> generations,
                   const DevicePart& of_device) {
  for (const size_t generation : of_device.generations) {
    Part& part = parts_.emplace_back();
    part.generation = generation;
    const auto& planes = *dynamic_cast<const MultiRowPlanes*>(generations[generation].planes);
    for (const Placement::Run& run : planes.placement().runs()) {
      if (run.device == of_device.device) part.runs.push_back(run);
    }
  }
}

size_t PartRows::RunOf(size_t part, int64_t local) const {
  const std::vector<Placement::Run>& runs = parts_[part].runs;
  const auto after = std::upper_bound(
      runs.begin(), runs.end(), local,
      [](int64_t wanted, const Placement::Run& run) { return wanted < int64_t{run.local}; });
  CHECK(after != runs.begin());
  return static_cast<size_t>(std::prev(after) - runs.begin());
}

uint32_t PartRows::SlotOf(size_t part, uint32_t local) const {
  const Placement::Run& run = parts_[part].runs[RunOf(part, local)];
  return run.slot + (local - run.local);
}

double PartTerms::SumOf(size_t generation, uint32_t slot) const {
  return whole_.SumOf(rows_.GenerationOf(generation), rows_.SlotOf(generation, slot));
}

double PartTerms::SumUpper(size_t generation, int64_t begin, int64_t rows_count) const {
  double upper = -std::numeric_limits<double>::infinity();
  rows_.ForEachRun(generation, begin, rows_count, [&](int64_t slot, int64_t count) {
    upper = std::max(upper, whole_.SumUpper(rows_.GenerationOf(generation), slot, count));
  });
  return upper;
}

void PartTerms::CopyNumbers(size_t term, size_t generation, int64_t begin,
                            absl::Span<double> numbers) const {
  size_t copied = 0;
  rows_.ForEachRun(generation, begin, static_cast<int64_t>(numbers.size()),
                   [&](int64_t slot, int64_t count) {
                     whole_.CopyNumbers(term, rows_.GenerationOf(generation), slot,
                                        numbers.subspan(copied, static_cast<size_t>(count)));
                     copied += static_cast<size_t>(count);
                   });
}

PartTermsOfQueries::PartTermsOfQueries(absl::Span<const backend::TermSource* const> whole,
                                       absl::Span<const backend::GenerationView> generations,
                                       const DevicePart& part)
    : rows_(generations, whole.empty() ? DevicePart() : part) {
  for (size_t q = 0; q < whole.size(); ++q) {
    if (whole[q] == nullptr || (q > 0 && whole[q] == whole[q - 1])) {
      terms_.push_back(whole[q] == nullptr ? nullptr : terms_.back());
      continue;
    }
    parts_.push_back(std::make_unique<PartTerms>(*whole[q], rows_));
    terms_.push_back(parts_.back().get());
  }
}

}  // namespace nearfield::multi

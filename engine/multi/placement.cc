#include "engine/multi/placement.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/check.h"

namespace nearfield::multi {
namespace {

constexpr uint32_t kWordBits = 64;

// Returns up to 64 bits, beginning at bit `begin`.
uint64_t BitsAt(absl::Span<const uint64_t> words, uint32_t begin, uint32_t count) {
  const uint32_t word = begin / kWordBits;
  const uint32_t shift = begin % kWordBits;
  uint64_t bits = words[word] >> shift;
  if (shift + count > kWordBits) bits |= words[word + 1] << (kWordBits - shift);
  return count == kWordBits ? bits : bits & ((uint64_t{1} << count) - 1);
}

// Sets bits [to, to + count) of `target`, which are 0, to bits [from, from + count) of `source`.
void CopyBits(absl::Span<const uint64_t> source, uint32_t from, uint32_t count, uint32_t to,
              std::vector<uint64_t>& target) {
  while (count > 0) {
    const uint32_t step = std::min(count, kWordBits - to % kWordBits);
    target[to / kWordBits] |= BitsAt(source, from, step) << (to % kWordBits);
    from += step;
    to += step;
    count -= step;
  }
}

}  // namespace

void Placement::Append(size_t device, int64_t count) {
  if (count == 0) return;
  CHECK_LT(device, rows_of_.size());
  if (runs_.empty() || runs_.back().device != device) {
    runs_.push_back({.slot = static_cast<uint32_t>(rows_count_),
                     .local = static_cast<uint32_t>(rows_of_[device]),
                     .count = 0,
                     .device = static_cast<uint32_t>(device)});
  }
  runs_.back().count += static_cast<uint32_t>(count);
  rows_of_[device] += count;
  rows_count_ += count;
}

const Placement::Run& Placement::RunOf(uint32_t slot) const {
  CHECK_LT(int64_t{slot}, rows_count_);
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), slot,
                       [](uint32_t wanted, const Run& run) { return wanted < run.slot; });
  return *std::prev(after);
}

Place Placement::Of(uint32_t slot) const {
  const Run& run = RunOf(slot);
  return {.device = run.device, .local = run.local + (slot - run.slot)};
}

std::vector<std::vector<uint64_t>> Placement::Split(absl::Span<const uint64_t> words) const {
  std::vector<std::vector<uint64_t>> parts;
  for (const int64_t rows : rows_of_) {
    parts.emplace_back(static_cast<size_t>((rows + kWordBits - 1) / kWordBits));
  }
  for (const Run& run : runs_) CopyBits(words, run.slot, run.count, run.local, parts[run.device]);
  return parts;
}

}  // namespace nearfield::multi

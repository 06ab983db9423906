#include "engine/corpus/ordinals.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/check.h"

namespace nearfield::corpus {
namespace {

// Returns bits [begin, begin + 64) of `words`; bits after the last word are zero.
uint64_t BitsAt(absl::Span<const uint64_t> words, int64_t begin) {
  const auto word = static_cast<size_t>(begin / 64);
  const int64_t shift = begin % 64;
  if (word >= words.size()) return 0;
  const uint64_t low = words[word] >> shift;
  if (shift == 0 || word + 1 >= words.size()) return low;
  return low | words[word + 1] << (64 - shift);
}

// Copies bits [from, from + count) of `source` to bits [to, to + count) of `target`. Requires: the
// bits of `target` are zero.
void CopyBits(absl::Span<const uint64_t> source, int64_t from, int64_t count, int64_t to,
              absl::Span<uint64_t> target) {
  while (count > 0) {
    const int64_t shift = to % 64;
    const int64_t taken = std::min(count, 64 - shift);
    const uint64_t mask = taken == 64 ? ~uint64_t{0} : (uint64_t{1} << taken) - 1;
    target[static_cast<size_t>(to / 64)] |= (BitsAt(source, from) & mask) << shift;
    from += taken;
    to += taken;
    count -= taken;
  }
}

}  // namespace

Ordinals::Ordinals(uint32_t first, int64_t rows_count) : rows_count_(rows_count) {
  if (rows_count > 0) runs_ = {{.slot = 0, .ordinal = first}};
}

size_t Ordinals::RunOf(int64_t slot) const {
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), slot,
                       [](int64_t at, const Run& run) { return at < int64_t{run.slot}; });
  return static_cast<size_t>(after - runs_.begin()) - 1;
}

uint32_t Ordinals::at(uint32_t slot) const {
  DCHECK_LT(int64_t{slot}, rows_count_);
  const Run& run = runs_[RunOf(slot)];
  return run.ordinal + (slot - run.slot);
}

void Ordinals::ForEachRun(int64_t begin, int64_t end,
                          absl::FunctionRef<void(uint32_t ordinal, int64_t count)> visit) const {
  DCHECK_LE(end, rows_count_);
  if (begin >= end) return;
  for (size_t place = RunOf(begin); begin < end; ++place) {
    const Run& run = runs_[place];
    const int64_t run_end = std::min(EndOf(place), end);
    visit(static_cast<uint32_t>(run.ordinal + (begin - run.slot)), run_end - begin);
    begin = run_end;
  }
}

void Ordinals::Append(uint32_t ordinal) {
  const auto slot = static_cast<uint32_t>(rows_count_++);
  if (!runs_.empty()) {
    const Run& last = runs_.back();
    if (ordinal - last.ordinal == slot - last.slot && ordinal > last.ordinal) return;
  }
  runs_.push_back({.slot = slot, .ordinal = ordinal});
}

void Ordinals::Choose(const RowFilter& filter, absl::Span<uint64_t> words) const {
  for (size_t run = 0; run < runs_.size(); ++run) {
    const int64_t slot = runs_[run].slot;
    CopyBits(filter.chosen, runs_[run].ordinal, EndOf(run) - slot, slot, words);
  }
}

}  // namespace nearfield::corpus

// Functions on bit sets of deleted slots on the host: bit (slot % 64) of word slot / 64.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/base/check.h"

namespace nearfield::corpus {

inline bool IsDeleted(absl::Span<const uint64_t> words, uint32_t slot) {
  DCHECK_LT(slot / 64, words.size());
  return (words[slot / 64] >> (slot % 64) & 1u) != 0;
}

// Returns false if `tombstones` is null.
inline bool IsDeleted(const backend::Tombstones* tombstones, uint32_t slot) {
  return tombstones != nullptr && IsDeleted(tombstones->words(), slot);
}

// Returns the positions of the clear bits among the first bits_count, ascending.
inline std::vector<uint32_t> ZeroBits(absl::Span<const uint64_t> words, int64_t bits_count) {
  std::vector<uint32_t> places;
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint64_t rest = ~words[i]; rest != 0; rest &= rest - 1) {
      const auto place = static_cast<int64_t>(i) * 64 + std::countr_zero(rest);
      if (place < bits_count) places.push_back(static_cast<uint32_t>(place));
    }
  }
  return places;
}

// Returns a copy of `tombstones` (null: none) with space for `rows_count` slots.
std::vector<uint64_t> CopyWords(const backend::Tombstones* tombstones, int64_t rows_count);

// Returns the slots of [begin, end) that are not deleted, ascending.
std::vector<uint32_t> LiveSlots(const backend::Tombstones* tombstones, int64_t begin, int64_t end);

}  // namespace nearfield::corpus

#include "engine/corpus/tombstone_words.h"

#include <algorithm>

#include "engine/base/checked_math.h"

namespace nearfield::corpus {

std::vector<uint64_t> CopyWords(const backend::Tombstones* tombstones, int64_t rows_count) {
  std::vector<uint64_t> words(static_cast<size_t>(CeilDiv(rows_count, 64)), 0);
  if (tombstones != nullptr) {
    const absl::Span<const uint64_t> old = tombstones->words();
    std::copy_n(old.begin(), std::min(old.size(), words.size()), words.begin());
  }
  return words;
}

std::vector<uint32_t> LiveSlots(const backend::Tombstones* tombstones, int64_t begin, int64_t end) {
  std::vector<uint32_t> slots;
  slots.reserve(static_cast<size_t>(end - begin));
  for (int64_t slot = begin; slot < end; ++slot) {
    if (!IsDeleted(tombstones, static_cast<uint32_t>(slot))) {
      slots.push_back(static_cast<uint32_t>(slot));
    }
  }
  return slots;
}

}  // namespace nearfield::corpus

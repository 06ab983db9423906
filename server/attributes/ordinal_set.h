// OrdinalSet: a set of row ordinals, a compressed (Roaring) bitmap.
#pragma once

#include <roaring/roaring.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace nearfield::server {

// The range [begin, end).
struct OrdinalRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // at most 2^32
};

// Threads may call const members concurrently. In some places the bitmap library cannot report that
// host memory is exhausted; the process then ends.
class OrdinalSet {
 public:
  // Creates an empty set.
  OrdinalSet();
  ~OrdinalSet();
  OrdinalSet(const OrdinalSet& other);
  OrdinalSet& operator=(const OrdinalSet& other);
  OrdinalSet(OrdinalSet&& other) noexcept;
  OrdinalSet& operator=(OrdinalSet&& other) noexcept;

  static OrdinalSet FromRange(OrdinalRange range);
  // Requires: ordinals ascend, without duplicates.
  static OrdinalSet FromSorted(absl::Span<const uint32_t> ordinals);
  // Returns the set in which base + i is present if bit i % 64 of word i / 64 is set. Requires:
  // base % 65536 == 0; base + 64 * words.size() <= 2^32.
  static OrdinalSet FromWords(uint32_t base, absl::Span<const uint64_t> words);

  int64_t size() const;
  bool empty() const;
  bool Contains(uint32_t ordinal) const;
  // Requires: !empty().
  uint32_t first() const;
  uint32_t last() const;
  int64_t IntersectionSize(const OrdinalSet& other) const;
  // Returns the number of ordinals in the set that are smaller. Cost: one step for each 65536
  // ordinals before it, and a search.
  int64_t CountBelow(uint32_t ordinal) const;
  // Returns the bytes of host memory that the set holds, with an error of a few percent.
  int64_t bytes() const;
  // Returns an upper limit of bytes() for a compact set of `count` ordinals that span at most
  // `span`.
  static int64_t BytesMax(int64_t count, int64_t span);

  // Change this set in place. Requires: `other` is a different object.
  void IntersectWith(const OrdinalSet& other);
  void UniteWith(const OrdinalSet& other);
  void Subtract(const OrdinalSet& other);
  void ToggleAll(const OrdinalSet& other);  // symmetric difference
  void Add(uint32_t ordinal);
  // Reduces memory use to the minimum; for sets that are stored for long.
  void Compact();

  static OrdinalSet Intersection(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet Difference(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet SymmetricDifference(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet Union(absl::Span<const OrdinalSet* const> sets);
  friend bool operator==(const OrdinalSet& a, const OrdinalSet& b);
  friend bool operator!=(const OrdinalSet& a, const OrdinalSet& b) { return !(a == b); }

  // Calls visit with each maximal range of consecutive ordinals, ascending.
  void ForEachRange(absl::FunctionRef<void(OrdinalRange range)> visit) const;
  // Returns all ordinals, ascending.
  std::vector<uint32_t> ToVector() const;
  // Writes the ordinals of [base, base + 64 * words.size()) as bits, in the layout of FromWords.
  // Writes every word. Requires: base % 65536 == 0. Cost: a copy of the set, plus 1 to 2 ns for
  // each ordinal in a sparse region.
  void CopyWords(uint32_t base, absl::Span<uint64_t> words) const;

 private:
  explicit OrdinalSet(roaring_bitmap_t* bitmap);

  roaring_bitmap_t* bitmap_;  // null only after a move from this object
};

}  // namespace nearfield::server

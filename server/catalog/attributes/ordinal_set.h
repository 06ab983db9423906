// A set of row ordinals: a compressed (Roaring) bitmap.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ORDINAL_SET_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ORDINAL_SET_H_

#include <roaring/roaring.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace nearfield::server {

// [begin, end).
struct OrdinalRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // at most 2^32
};

// Const members may be called at once from any number of threads. The bitmap's library cannot
// report that the host is out of memory in every place; where it does, the process ends.
class OrdinalSet {
 public:
  // Empty.
  OrdinalSet();
  ~OrdinalSet();
  OrdinalSet(const OrdinalSet& other);
  OrdinalSet& operator=(const OrdinalSet& other);
  OrdinalSet(OrdinalSet&& other) noexcept;
  OrdinalSet& operator=(OrdinalSet&& other) noexcept;

  static OrdinalSet FromRange(OrdinalRange range);
  // Requires ascending ordinals, each once.
  static OrdinalSet FromSorted(absl::Span<const uint32_t> ordinals);
  // Bit i % 64 of word i / 64 says whether base + i is in the set. Requires base % 65536 == 0 and
  // base + 64 * words.size() <= 2^32.
  static OrdinalSet FromWords(uint32_t base, absl::Span<const uint64_t> words);

  int64_t size() const;
  bool empty() const;
  bool Contains(uint32_t ordinal) const;
  // Requires !empty().
  uint32_t first() const;
  uint32_t last() const;
  int64_t IntersectionSize(const OrdinalSet& other) const;
  // Bytes of host memory the set holds on to, to within a few percent.
  int64_t bytes() const;

  // In place; `other` is another set than this one.
  void IntersectWith(const OrdinalSet& other);
  void UniteWith(const OrdinalSet& other);
  void Subtract(const OrdinalSet& other);
  void ToggleAll(const OrdinalSet& other);  // what is in exactly one of the two
  void Add(uint32_t ordinal);
  // Takes as little memory as it can, for sets that stay.
  void Compact();

  static OrdinalSet Intersection(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet Difference(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet SymmetricDifference(const OrdinalSet& a, const OrdinalSet& b);
  static OrdinalSet Union(absl::Span<const OrdinalSet* const> sets);
  friend bool operator==(const OrdinalSet& a, const OrdinalSet& b);
  friend bool operator!=(const OrdinalSet& a, const OrdinalSet& b) { return !(a == b); }

  // Calls visit with each range of neighboring ordinals, ascending; no two of them touch.
  void ForEachRange(absl::FunctionRef<void(OrdinalRange range)> visit) const;
  // All ordinals, ascending.
  std::vector<uint32_t> ToVector() const;
  // The ordinals of [base, base + 64 * words.size()) as bits, as in FromWords; every word is
  // written. Requires base % 65536 == 0. Costs a copy of the set, and a nanosecond or two for each
  // ordinal that has few around it.
  void CopyWords(uint32_t base, absl::Span<uint64_t> words) const;

 private:
  explicit OrdinalSet(roaring_bitmap_t* bitmap);

  roaring_bitmap_t* bitmap_;  // never null but in what was moved from
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ORDINAL_SET_H_

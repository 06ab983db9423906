// AttributeIndex: the index of one attribute over the rows of a chunk. It holds the rows that have
// a value, the distinct values in order, and the rows of each value.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/posting_lists.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// Unsorted values of rows, one entry for each value.
struct AttributeEntries {
  ValueColumn values;
  std::vector<uint32_t> ordinals;  // one for each value, ascending
  std::vector<uint32_t> present;   // rows that have a value or an empty list; ascending
};

// Immutable.
class AttributeIndex {
 public:
  // Cost: one sort of the numbers, or of the distinct keywords.
  static AttributeIndex Build(const AttributeSpec& spec, const AttributeEntries& entries);
  // Returns the index over the rows of all `parts`, which have no row in common, without `dead`.
  // Cost: one pass over the distinct values and the rows if the rows of each part come after those
  // of the previous parts; else also a sort of the rows of each value.
  static AttributeIndex Merge(const AttributeSpec& spec,
                              absl::Span<const AttributeIndex* const> parts,
                              const OrdinalSet& dead);

  const OrdinalSet& present() const { return present_; }
  const PostingLists& rows() const { return rows_; }
  // Returns the codes of the values that have this relation to the value at `index` of `values`;
  // for kNotEqual the codes for kEqual. `from` is where the search begins, for callers with
  // ascending values.
  // Requires: `values` has the index's type; no value at or above the wanted one has a code below
  // `from`.
  CodeRange Find(Comparison comparison, const ValueColumn& values, int64_t index,
                 uint32_t from) const;
  int64_t bytes() const;

 private:
  friend class IndexMerger;

  // Returns the number of values below the wanted one, but at least `from`.
  uint32_t LowerBound(const ValueColumn& values, int64_t index, uint32_t from) const;
  bool Holds(uint32_t code, const ValueColumn& values, int64_t index) const;

  OrdinalSet present_;
  std::vector<int64_t> keys_;  // distinct, ascending (ValueColumn::key); empty for keywords
  BytesColumn keywords_;       // distinct, ascending
  PostingLists rows_;
};

}  // namespace nearfield::server

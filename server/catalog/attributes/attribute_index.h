// The index of one attribute over the rows of a chunk: which rows have a value, its distinct values
// in order, and the rows of each.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ATTRIBUTE_INDEX_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ATTRIBUTE_INDEX_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "server/catalog/attributes/filter_tree.h"
#include "server/catalog/attributes/ordinal_set.h"
#include "server/catalog/attributes/posting_lists.h"
#include "server/catalog/attributes/schema.h"
#include "server/catalog/attributes/value_column.h"

namespace nearfield::server {

// Values of rows as they came, one entry a value.
struct AttributeEntries {
  ValueColumn values;
  std::vector<uint32_t> ordinals;  // one a value, ascending
  std::vector<uint32_t> present;   // rows that have a value, or an empty list; ascending
};

// Immutable.
class AttributeIndex {
 public:
  // Cost: one sort of the numbers, or of the distinct keywords.
  static AttributeIndex Build(const AttributeSpec& spec, const AttributeEntries& entries);
  // The index over the rows of all `parts`, which share none, without `dead`. Cost: one pass over
  // the distinct values and the rows, where the rows of each part come after those of the parts
  // before it; else a sort of the rows of a value.
  static AttributeIndex Merge(const AttributeSpec& spec,
                              absl::Span<const AttributeIndex* const> parts,
                              const OrdinalSet& dead);

  const OrdinalSet& present() const { return present_; }
  const PostingLists& rows() const { return rows_; }
  // The codes of the values that stand in this relation to the one at `index` of `values`; for
  // kNotEqual those of kEqual. Requires values of the index's type. `from`: where to begin, for
  // those who ask for ascending values; no value at or after the wanted one lies before it.
  CodeRange Find(Comparison comparison, const ValueColumn& values, int64_t index,
                 uint32_t from) const;
  int64_t bytes() const;

 private:
  friend class IndexMerger;

  // The number of values below the wanted one; at least `from`.
  uint32_t LowerBound(const ValueColumn& values, int64_t index, uint32_t from) const;
  bool Holds(uint32_t code, const ValueColumn& values, int64_t index) const;

  OrdinalSet present_;
  std::vector<int64_t> keys_;  // distinct, ascending (ValueColumn::key); of keywords empty
  BytesColumn keywords_;       // distinct, ascending
  PostingLists rows_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_ATTRIBUTE_INDEX_H_

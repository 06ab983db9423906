// AttributeIndex: the index of one attribute over the rows of a chunk. It holds the rows that have
// a value, the distinct values in order, the rows of each value, and the values of each row.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/bytes_column.h"
#include "server/attributes/attribute_block.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/ordinal_set.h"
#include "server/attributes/posting_lists.h"
#include "server/attributes/row_values.h"
#include "server/attributes/schema.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

// Unsorted values of rows, one entry for each value.
struct AttributeEntries {
  ValueColumn values;
  std::vector<uint32_t> ordinals;  // one for each value, ascending
  std::vector<uint32_t> present;   // rows that have a value or an empty list; ascending
};

// Bytes of values in a message.
struct MessageBytes {
  int64_t wire = 0;  // encoded
  int64_t held = 0;  // in memory, at least `wire`

  MessageBytes& operator+=(const MessageBytes& other) {
    wire += other.wire;
    held += other.held;
    return *this;
  }
};

// Immutable.
class AttributeIndex {
 public:
  // Cost: one sort of the numbers, or of the distinct keywords.
  static AttributeIndex Build(const AttributeSpec& spec, const AttributeEntries& entries);
  // Returns an upper limit of the bytes of host memory that the result of Build holds. Requires:
  // the ordinals of a chunk.
  static int64_t BuiltBytesMax(const AttributeSpec& spec, const AttributeEntries& entries);
  // Returns the index over the rows of all `parts`, which have no row in common, without `dead`.
  // Cost: a few passes over the distinct values and the rows if the rows of each part come after
  // those of the previous parts; else also a sort of the rows of each value.
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
  // Appends the row to `column`: its values as they were uploaded, or that it has none. Requires:
  // `column` has the type of this attribute.
  void AppendRow(uint32_t ordinal, AttributeColumn* column) const;
  // Writes the number of each row that has one to numbers[ordinal] (ValueColumn::NumberOf).
  // Requires: `type` is that of this attribute, which is a scalar and no keyword; every ordinal is
  // below numbers.size(). Cost: a few nanoseconds for each row.
  void CopyNumbers(AttributeType type, absl::Span<double> numbers) const;
  // Returns the bytes that the row's values take in a message. Requires: `type` is that of this
  // attribute.
  MessageBytes BytesOfRow(uint32_t ordinal, AttributeType type) const;
  // Appends the value of a code: +0 for the zeros. Requires: `values` has the type of this
  // attribute.
  void AppendValue(uint32_t code, ValueColumn* values) const;
  // Compares the value of a code with one of another index of the same attribute. Returns a
  // negative number, 0 or a positive number.
  int CompareValue(uint32_t code, const AttributeIndex& other, uint32_t other_code) const;
  int64_t bytes() const;

 private:
  friend class IndexMerger;

  // Returns the number of values below the wanted one, but at least `from`.
  uint32_t LowerBound(const ValueColumn& values, int64_t index, uint32_t from) const;
  bool Holds(uint32_t code, const ValueColumn& values, int64_t index) const;
  void SetPresent(OrdinalSet present);
  // Returns the row's place in values_. Requires: present() has the row.
  int64_t PlaceOf(uint32_t ordinal) const {
    return present_is_range_ ? int64_t{ordinal} - first_present_ : present_.CountBelow(ordinal);
  }
  MessageBytes BytesOfValue(uint32_t code, AttributeType type) const;
  uint32_t negative_zero_code() const { return rows_.codes_count(); }

  OrdinalSet present_;
  bool present_is_range_ = false;  // the ordinals of present_ are consecutive
  uint32_t first_present_ = 0;
  std::vector<int64_t> keys_;  // distinct, ascending (ValueColumn::key); empty for keywords
  BytesColumn keywords_;       // distinct, ascending
  PostingLists rows_;
  // The values of each present row. -0 has the code after all others, because it is no distinct
  // value: rows_ has its rows at the code of +0.
  RowValues values_;
};

}  // namespace nearfield::server

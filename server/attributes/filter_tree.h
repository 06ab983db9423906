// FilterTree: a filter as a tree of conditions on the attributes and ids of rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nearfield/engine/id_column.h"
#include "server/attributes/value_column.h"

namespace nearfield::server {

enum class ConditionKind : uint8_t {
  kAnd,         // at least one child
  kOr,          // at least one child
  kNot,         // exactly one child
  kComparison,  // attribute, comparison, exactly one value
  kIn,          // attribute, values
  kListAny,     // attribute (a list), values
  kListAll,     // attribute (a list), at least one value
  kExists,      // attribute
  kHasId,       // ids
};

// Returns true if conditions of this kind compare an attribute with values.
inline bool TakesValues(ConditionKind kind) {
  return kind == ConditionKind::kComparison || kind == ConditionKind::kIn ||
         kind == ConditionKind::kListAny || kind == ConditionKind::kListAll;
}

inline bool NamesAttribute(ConditionKind kind) {
  return TakesValues(kind) || kind == ConditionKind::kExists;
}

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

struct Condition {
  ConditionKind kind = ConditionKind::kExists;
  std::vector<int32_t> children;  // places in FilterTree::conditions
  std::string attribute;
  Comparison comparison = Comparison::kEqual;
  ValueColumn values;
  IdColumn ids = IdColumn(IdType::kUint64);
};

// A list of conditions. The root is first, and each condition comes after its parent. So a loop
// from the back visits children before parents, without recursion.
struct FilterTree {
  std::vector<Condition> conditions;
};

// Returns the tree of one condition without children.
FilterTree Leaf(Condition condition);
// Returns `filters` joined by a condition of this kind: kAnd or kOr of at least one, kNot of one.
FilterTree Join(ConditionKind kind, std::vector<FilterTree> filters);

// Returns the size that filter_bytes_max limits, without that of the children: 8 bytes plus the
// attribute's name; for a number 8 bytes; for a keyword or string id, its bytes plus 4.
int64_t FilterBytes(const Condition& condition);

// Returns the canonical form of a filter. Two filters have the same form if and only if they differ
// only in the order or repetition of operands of `and` and `or`, of values or of ids.
std::string CanonicalBytes(const FilterTree& tree);

}  // namespace nearfield::server

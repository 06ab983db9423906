// A filter as it was asked for: a tree of conditions on the attributes and the id of a row.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_TREE_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_TREE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nearfield/engine/id_column.h"
#include "server/catalog/attributes/value_column.h"

namespace nearfield::server {

enum class ConditionKind : uint8_t {
  kAnd,         // children, at least one
  kOr,          // children, at least one
  kNot,         // exactly one child
  kComparison,  // attribute, comparison, exactly one value
  kIn,          // attribute, at least one value
  kListAny,     // attribute (a list), at least one value
  kListAll,     // attribute (a list), at least one value
  kExists,      // attribute
  kHasId,       // ids, at least one
};

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };

struct Condition {
  ConditionKind kind = ConditionKind::kExists;
  std::vector<int32_t> children;  // places in FilterTree::conditions
  std::string attribute;
  Comparison comparison = Comparison::kEqual;
  ValueColumn values;
  IdColumn ids = IdColumn(IdType::kUint64);
};

// Conditions in one list, the root first, each after its parent: so they are walked without
// recursion, from the back for children before parents. Nothing is checked here (filter.h does).
struct FilterTree {
  std::vector<Condition> conditions;
};

// Whether each condition but the root is the child of exactly one before it.
bool IsTree(const FilterTree& tree);

// The levels of a tree: 1 for a single condition. Requires IsTree().
int64_t FilterDepth(const FilterTree& tree);

// What filter_bytes_max bounds: a condition counts 8 bytes and its attribute's name, a number 8
// bytes, a keyword or string id its bytes and 4.
int64_t FilterBytes(const FilterTree& tree);

// Where a condition stands, in the words of the message: "filter.and[1].not.comparison". Requires
// IsTree().
std::string PathOf(const FilterTree& tree, int32_t condition);
// The path of a child that would be appended to `condition` next.
std::string PathOfNextChild(const FilterTree& tree, int32_t condition);

// Bytes that are the same for filters that differ only in the order or repetition of the operands
// of `and` and `or`, or of values and ids; and never for filters that differ in more. Requires
// IsTree().
std::string CanonicalBytes(const FilterTree& tree);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_TREE_H_

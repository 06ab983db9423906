// Short functions that make filters, and random filters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/attributes/filter_tree.h"
#include "server/attributes/schema.h"
#include "tests/testing/random.h"

namespace nearfield::server {

// Returns true if each condition except the root is the child of exactly one earlier condition.
bool IsTree(const FilterTree& tree);
// Returns the number of levels: 1 for a single condition. Requires: IsTree().
int64_t FilterDepth(const FilterTree& tree);
int64_t FilterBytes(const FilterTree& tree);  // of all conditions

FilterTree And(std::vector<FilterTree> filters);
FilterTree Or(std::vector<FilterTree> filters);
FilterTree Not(FilterTree filter);
FilterTree Compare(const std::string& attribute, Comparison comparison, ValueColumn value);
// `kind`: kIn, kListAny or kListAll.
FilterTree OfValues(ConditionKind kind, const std::string& attribute, ValueColumn values);
FilterTree Exists(const std::string& attribute);
FilterTree HasId(IdColumn ids);

ValueColumn Integers(std::vector<int64_t> values, AttributeType type = AttributeType::kInt64);
ValueColumn Doubles(std::vector<double> values);
ValueColumn Bools(std::vector<bool> values);
ValueColumn Keywords(std::vector<std::string> values);
// Returns a column with only the value at `index`.
ValueColumn One(const ValueColumn& values, int64_t index);

// Returns random attributes in random order: each type as a value and as a list, some left out.
std::vector<AttributeSpec> RandomSpecs(testing::Random& random);
// Draws from few values, including the extremes, so that filters often match rows.
void AppendRandomValue(testing::Random& random, ValueColumn* values);
// Returns a filter that is valid for the schema, with at most `depth` levels. Its ids are 0 ..
// ids_count - 1 and some beyond.
FilterTree RandomFilter(testing::Random& random, const std::vector<AttributeSpec>& specs, int depth,
                        uint64_t ids_count);

}  // namespace nearfield::server

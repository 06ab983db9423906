// Filters in a few words, and random ones.
#ifndef NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MAKER_H_
#define NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MAKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "server/catalog/attributes/filter_tree.h"
#include "server/catalog/attributes/schema.h"
#include "tests/testing/random.h"

namespace nearfield::server {

FilterTree And(std::vector<FilterTree> filters);
FilterTree Or(std::vector<FilterTree> filters);
FilterTree Not(FilterTree filter);
FilterTree Compare(const std::string& attribute, Comparison comparison, ValueColumn value);
// kIn, kListAny or kListAll.
FilterTree OfValues(ConditionKind kind, const std::string& attribute, ValueColumn values);
FilterTree Exists(const std::string& attribute);
FilterTree HasId(IdColumn ids);

ValueColumn Integers(std::vector<int64_t> values, AttributeType type = AttributeType::kInt64);
ValueColumn Doubles(std::vector<double> values);
ValueColumn Bools(std::vector<bool> values);
ValueColumn Keywords(std::vector<std::string> values);
// The value at `index`, alone.
ValueColumn One(const ValueColumn& values, int64_t index);

// A schema with every type, as a value and as a list, in random order, some left out.
std::vector<AttributeSpec> RandomSpecs(testing::Random& random);
// From few values, so that rows and filters meet; with the extremes among them.
void AppendRandomValue(testing::Random& random, ValueColumn* values);
// Valid for the schema, at most `depth` levels; ids are 0 .. ids_count - 1 and some beyond.
FilterTree RandomFilter(testing::Random& random, const std::vector<AttributeSpec>& specs, int depth,
                        uint64_t ids_count);

}  // namespace nearfield::server

#endif  // NEARFIELD_TESTS_SERVER_ATTRIBUTES_FILTER_MAKER_H_

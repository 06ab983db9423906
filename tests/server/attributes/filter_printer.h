// Prints trees as the text of a filter.
#pragma once

#include <string>
#include <vector>

#include "server/attributes/filter_text.h"
#include "server/attributes/filter_tree.h"
#include "tests/testing/random.h"

namespace nearfield::server {

// Returns a text that ParseFilterText parses into a tree with the same CanonicalBytes. It has no
// brackets where precedence makes them unnecessary. An `and` or `or` of a single operand, which no
// text has, is printed with that operand twice. Requires: a valid filter.
std::string TextOf(const FilterTree& tree);

// As TextOf, but values, lists and ids that are chosen at random are arguments. Some of these have
// another type, from which the server converts them.
struct PrintedFilter {
  std::string text;
  std::vector<FilterArgument> arguments;
};
PrintedFilter PrintWithArguments(const FilterTree& tree, testing::Random& random);

// Returns true if TextOf(tree) is within the limits of a filter, in spite of operands that are
// printed twice.
bool FitsAsText(const FilterTree& tree);

}  // namespace nearfield::server

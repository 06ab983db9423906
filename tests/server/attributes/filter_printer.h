// Filters as text, printed from trees.
#pragma once

#include <string>

#include "server/attributes/filter_tree.h"

namespace nearfield::server {

// Returns a text that ParseFilterText parses into a tree with the same CanonicalBytes. It has no
// brackets where precedence makes them unnecessary. An `and` or `or` of a single operand, which no
// text has, is printed with that operand twice. Requires: a valid filter.
std::string TextOf(const FilterTree& tree);

// Returns true if TextOf(tree) is within the limits of a filter, in spite of operands that are
// printed twice.
bool FitsAsText(const FilterTree& tree);

}  // namespace nearfield::server

// Filter: a filter whose attributes were found in a schema. Only this form is evaluated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/attributes/filter_tree.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// Immutable. proto/nearfield/v1/common.proto, "Filters", defines the meaning of its conditions.
class Filter {
 public:
  // Requires: a tree that ParseFilterText() may return for this schema. The filter is valid for the
  // schema, and for one that adds or drops attributes.
  Filter(FilterTree tree, const AttributeSchema& schema);

  // The values of each condition ascend, without duplicates.
  const FilterTree& tree() const { return tree_; }
  // Returns the number of the attribute that a condition names; -1 if it names none.
  int32_t attribute(int32_t condition) const { return attributes_[static_cast<size_t>(condition)]; }
  // Returns attribute() of each condition.
  const std::vector<int32_t>& attributes() const { return attributes_; }
  // Returns the filter's cache key: CanonicalBytes() and the numbers of the attributes.
  const std::string& canonical() const { return canonical_; }
  bool has_ids() const { return has_ids_; }
  // Returns the bytes of host memory that the filter holds.
  int64_t bytes() const;

 private:
  FilterTree tree_;
  std::vector<int32_t> attributes_;
  std::string canonical_;
  bool has_ids_ = false;
};

}  // namespace nearfield::server

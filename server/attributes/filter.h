// Filter: a filter that was checked against a schema. Only this form is evaluated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/attributes/filter_tree.h"
#include "server/attributes/limits.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// Immutable. proto/nearfield/v1/common.proto, "Filter", defines the meaning of its conditions.
class Filter {
 public:
  // The values of each condition ascend, without duplicates.
  const FilterTree& tree() const { return tree_; }
  // Returns the number of the attribute that a condition names; -1 if it names none.
  int32_t attribute(int32_t condition) const { return attributes_[static_cast<size_t>(condition)]; }
  // Returns the filter's cache key: CanonicalBytes().
  const std::string& canonical() const { return canonical_; }
  bool has_ids() const { return has_ids_; }
  // Returns the bytes of host memory that the filter holds.
  int64_t bytes() const;

 private:
  friend absl::StatusOr<Filter> ValidateFilter(FilterTree tree, const AttributeSchema& schema,
                                               const AttributeLimits& limits);
  Filter() = default;

  FilterTree tree_;
  std::vector<int32_t> attributes_;
  std::string canonical_;
  bool has_ids_ = false;
};

// Checks a filter against a schema. The result is valid for this schema, and for one that adds
// attributes at its end. The caller checks that ids have the collection's type.
// Errors: InvalidArgument, with the path of the condition, the value and the limit.
absl::StatusOr<Filter> ValidateFilter(FilterTree tree, const AttributeSchema& schema,
                                      const AttributeLimits& limits);

// Return the errors for a filter with too many levels, conditions or values. Also used by code that
// builds trees.
absl::Status TooDeep(const std::string& path, const AttributeLimits& limits);
absl::Status TooManyConditions(const std::string& path, const AttributeLimits& limits);
absl::Status TooManyValues(const std::string& path, int64_t count, const AttributeLimits& limits);

}  // namespace nearfield::server

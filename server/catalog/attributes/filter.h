// A filter that was checked against a schema: the only form that is evaluated.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/catalog/attributes/filter_tree.h"
#include "server/catalog/attributes/limits.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// Immutable. What its conditions mean is said in proto/nearfield/v1/common.proto, "Filter".
class Filter {
 public:
  // Its values ascend, each once.
  const FilterTree& tree() const { return tree_; }
  // The number of the attribute that a condition names; -1 where it names none.
  int32_t attribute(int32_t condition) const { return attributes_[static_cast<size_t>(condition)]; }
  // The filter's name in caches: CanonicalBytes().
  const std::string& canonical() const { return canonical_; }
  bool has_ids() const { return has_ids_; }

 private:
  friend absl::StatusOr<Filter> ValidateFilter(FilterTree tree, const AttributeSchema& schema,
                                               const AttributeLimits& limits);
  Filter() = default;

  FilterTree tree_;
  std::vector<int32_t> attributes_;
  std::string canonical_;
  bool has_ids_ = false;
};

// The filter is then good for this schema, and for one that adds attributes at its end. That ids
// are of the collection's type is the caller's matter. Errors: InvalidArgument, with the path of
// the condition, the value and the limit.
absl::StatusOr<Filter> ValidateFilter(FilterTree tree, const AttributeSchema& schema,
                                      const AttributeLimits& limits);

// The refusal of a filter with more levels or conditions than the limit; for those who make trees.
absl::Status TooDeep(const std::string& path, const AttributeLimits& limits);
absl::Status TooManyConditions(const std::string& path, const AttributeLimits& limits);
absl::Status TooManyValues(const std::string& path, int64_t count, const AttributeLimits& limits);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_FILTER_H_

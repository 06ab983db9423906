#include "server/attributes/filter.h"

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace nearfield::server {

Filter::Filter(FilterTree tree, const AttributeSchema& schema) {
  for (Condition& condition : tree.conditions) {
    has_ids_ = has_ids_ || condition.kind == ConditionKind::kHasId;
    attributes_.push_back(-1);
    if (!NamesAttribute(condition.kind)) continue;
    const std::optional<int32_t> attribute = schema.Find(condition.attribute);
    CHECK(attribute.has_value());
    attributes_.back() = *attribute;
    condition.values.SortDistinct();  // for faster look-ups
  }
  canonical_ = CanonicalBytes(tree);
  // A name may be that of another attribute in another schema of the collection.
  const std::set<int32_t> numbers(attributes_.begin(), attributes_.end());
  for (const int32_t number : numbers) absl::StrAppend(&canonical_, " ", number);
  tree_ = std::move(tree);
}

int64_t Filter::bytes() const {
  size_t bytes = tree_.conditions.capacity() * sizeof(Condition) +
                 attributes_.capacity() * sizeof(int32_t) + canonical_.capacity();
  for (const Condition& condition : tree_.conditions) {
    bytes += condition.children.capacity() * sizeof(int32_t) + condition.attribute.capacity() +
             static_cast<size_t>(condition.values.bytes() + condition.ids.bytes());
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace nearfield::server

#include "server/attributes/filter.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

bool IsOnList(ConditionKind kind) {
  return kind == ConditionKind::kListAny || kind == ConditionKind::kListAll;
}

// Checks the operands of one condition against its kind.
absl::Status CheckOperands(const FilterTree& tree, int32_t place, const AttributeLimits& limits) {
  const Condition& condition = tree.conditions[static_cast<size_t>(place)];
  const auto path = [&] { return PathOf(tree, place); };
  const bool junction =
      condition.kind == ConditionKind::kAnd || condition.kind == ConditionKind::kOr;
  if (junction && condition.children.empty()) {
    return ArgumentError(path(), "no filters given, must be 1 or more");
  }
  const size_t children_max = junction                                ? condition.children.size()
                              : condition.kind == ConditionKind::kNot ? 1
                                                                      : 0;
  if (condition.children.size() > children_max ||
      (condition.kind == ConditionKind::kNot && condition.children.empty())) {
    return ArgumentError(
        path(), absl::StrCat(condition.children.size(), " operands, must have ", children_max));
  }
  const int64_t values_count =
      condition.kind == ConditionKind::kHasId ? condition.ids.size() : condition.values.size();
  if (condition.kind == ConditionKind::kHasId || TakesValues(condition.kind)) {
    if (values_count < 1) {
      return ArgumentError(
          path(), absl::StrCat(condition.kind == ConditionKind::kHasId ? "no ids" : "no values",
                               " given, must be 1 .. ", limits.filter_values_max));
    }
    if (values_count > limits.filter_values_max) return TooManyValues(path(), values_count, limits);
  }
  if (condition.kind == ConditionKind::kComparison && values_count != 1) {
    return ArgumentError(path(), absl::StrCat(values_count, " values, must be 1"));
  }
  return absl::OkStatus();
}

// Checks a condition's kind and values against the attribute that it names.
absl::Status CheckAttribute(const FilterTree& tree, int32_t place, const AttributeSpec& spec) {
  const Condition& condition = tree.conditions[static_cast<size_t>(place)];
  const auto path = [&](const char* field) { return absl::StrCat(PathOf(tree, place), field); };
  if (!TakesValues(condition.kind)) return absl::OkStatus();
  if (IsOnList(condition.kind) != spec.is_list) {
    return ArgumentError(path(".attribute"),
                         absl::StrCat("\"", spec.name, "\" has type ", Describe(spec),
                                      spec.is_list ? ": must be list_any or list_all"
                                                   : ": must be comparison or in"));
  }
  if (condition.values.type() != spec.type) {
    return ArgumentError(path(condition.kind == ConditionKind::kComparison ? ".value" : ".values"),
                         absl::StrCat(NameOf(condition.values.type()), " given, \"", spec.name,
                                      "\" has type ", Describe(spec), ": types must be the same"));
  }
  if (condition.kind == ConditionKind::kComparison && spec.type == AttributeType::kBool &&
      condition.comparison != Comparison::kEqual && condition.comparison != Comparison::kNotEqual) {
    return ArgumentError(path(".op"), absl::StrCat("an order, \"", spec.name,
                                                   "\" has type bool: must be EQUAL or NOT_EQUAL"));
  }
  if (spec.type != AttributeType::kDouble) return absl::OkStatus();
  for (int64_t i = 0; i < condition.values.size(); ++i) {
    if (!std::isnan(condition.values.number(i))) continue;
    const std::string value =
        condition.kind == ConditionKind::kComparison ? ".value" : absl::StrCat(".values[", i, "]");
    return ArgumentError(path(value.c_str()), "NaN, must be a number or an infinity");
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const FilterTree& tree, const AttributeLimits& limits) {
  if (!IsTree(tree)) return ArgumentError("filter", "its conditions are not a tree");
  if (static_cast<int64_t>(tree.conditions.size()) > limits.filter_conditions_max) {
    return TooManyConditions("filter", limits);
  }
  const int64_t depth = FilterDepth(tree);
  if (depth > limits.filter_depth_max || depth > kFilterDepthMax) return TooDeep("filter", limits);
  const int64_t bytes = FilterBytes(tree);
  if (bytes > limits.filter_bytes_max) {
    return ArgumentError(
        "filter",
        absl::StrCat(bytes, " bytes of conditions, names, values and ids, must be at most ",
                     limits.filter_bytes_max));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Filter::bytes() const {
  size_t bytes = tree_.conditions.capacity() * sizeof(Condition) +
                 attributes_.capacity() * sizeof(int32_t) + canonical_.capacity();
  for (const Condition& condition : tree_.conditions) {
    bytes += condition.children.capacity() * sizeof(int32_t) + condition.attribute.capacity() +
             static_cast<size_t>(condition.values.bytes() + condition.ids.bytes());
  }
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<Filter> ValidateFilter(FilterTree tree, const AttributeSchema& schema,
                                      const AttributeLimits& limits) {
  ABSL_RETURN_IF_ERROR(CheckShape(tree, limits));
  Filter filter;
  for (int32_t place = 0; place < static_cast<int32_t>(tree.conditions.size()); ++place) {
    const Condition& condition = tree.conditions[static_cast<size_t>(place)];
    ABSL_RETURN_IF_ERROR(CheckOperands(tree, place, limits));
    filter.has_ids_ = filter.has_ids_ || condition.kind == ConditionKind::kHasId;
    filter.attributes_.push_back(-1);
    if (!TakesValues(condition.kind) && condition.kind != ConditionKind::kExists) continue;
    const std::optional<int32_t> attribute = schema.Find(condition.attribute);
    if (!attribute.has_value()) {
      return ArgumentError(
          PathOf(tree, place) + ".attribute",
          absl::StrCat(QuoteText(condition.attribute), " is no attribute of the collection",
                       schema.size() == 0 ? ", which declares none" : ""));
    }
    filter.attributes_.back() = *attribute;
    ABSL_RETURN_IF_ERROR(CheckAttribute(tree, place, schema.at(*attribute)));
  }
  // Sort values for faster look-ups, after the checks: errors name positions in the caller's order.
  for (Condition& condition : tree.conditions) condition.values.SortDistinct();
  filter.canonical_ = CanonicalBytes(tree);
  filter.tree_ = std::move(tree);
  return filter;
}

absl::Status TooDeep(const std::string& path, const AttributeLimits& limits) {
  return ArgumentError(
      path, absl::StrCat("more than ", limits.filter_depth_max,
                         " levels of conditions, must be at most ", limits.filter_depth_max));
}

absl::Status TooManyConditions(const std::string& path, const AttributeLimits& limits) {
  return ArgumentError(path, absl::StrCat("more than ", limits.filter_conditions_max,
                                          " conditions in the filter, must be at most ",
                                          limits.filter_conditions_max));
}

absl::Status TooManyValues(const std::string& path, int64_t count, const AttributeLimits& limits) {
  return ArgumentError(path,
                       absl::StrCat(count, " values, must be 1 .. ", limits.filter_values_max));
}

}  // namespace nearfield::server

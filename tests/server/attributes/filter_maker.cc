#include "tests/server/attributes/filter_maker.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <limits>
#include <utility>

namespace nearfield::server {
namespace {

using testing::Random;

constexpr std::array kTypes = {AttributeType::kInt64, AttributeType::kDouble, AttributeType::kBool,
                               AttributeType::kKeyword, AttributeType::kTimestamp};

}  // namespace

bool IsTree(const FilterTree& tree) {
  const auto size = static_cast<int32_t>(tree.conditions.size());
  std::vector<bool> has_parent(tree.conditions.size(), false);
  for (int32_t i = 0; i < size; ++i) {
    for (const int32_t child : tree.conditions[static_cast<size_t>(i)].children) {
      if (child <= i || child >= size || has_parent[static_cast<size_t>(child)]) return false;
      has_parent[static_cast<size_t>(child)] = true;
    }
  }
  return size > 0 && std::count(has_parent.begin(), has_parent.end(), true) == size - 1;
}

int64_t FilterDepth(const FilterTree& tree) {
  std::vector<int64_t> levels(tree.conditions.size(), 1);
  for (size_t i = 0; i < tree.conditions.size(); ++i) {
    for (const int32_t child : tree.conditions[i].children) {
      levels[static_cast<size_t>(child)] = levels[i] + 1;
    }
  }
  return *std::max_element(levels.begin(), levels.end());
}

int64_t FilterBytes(const FilterTree& tree) {
  int64_t bytes = 0;
  for (const Condition& condition : tree.conditions) bytes += FilterBytes(condition);
  return bytes;
}

FilterTree And(std::vector<FilterTree> filters) {
  return Join(ConditionKind::kAnd, std::move(filters));
}
FilterTree Or(std::vector<FilterTree> filters) {
  return Join(ConditionKind::kOr, std::move(filters));
}
FilterTree Not(FilterTree filter) {
  std::vector<FilterTree> filters;
  filters.push_back(std::move(filter));
  return Join(ConditionKind::kNot, std::move(filters));
}
FilterTree Compare(const std::string& attribute, Comparison comparison, ValueColumn value) {
  return Leaf({.kind = ConditionKind::kComparison,
               .children = {},
               .attribute = attribute,
               .comparison = comparison,
               .values = std::move(value)});
}
FilterTree OfValues(ConditionKind kind, const std::string& attribute, ValueColumn values) {
  return Leaf({.kind = kind,
               .children = {},
               .attribute = attribute,
               .comparison = Comparison::kEqual,
               .values = std::move(values)});
}
FilterTree Exists(const std::string& attribute) {
  return Leaf({.kind = ConditionKind::kExists, .children = {}, .attribute = attribute});
}
FilterTree HasId(IdColumn ids) {
  Condition condition{.kind = ConditionKind::kHasId};
  condition.ids = std::move(ids);
  return Leaf(std::move(condition));
}

ValueColumn Integers(std::vector<int64_t> values, AttributeType type) {
  ValueColumn column(type);
  for (const int64_t value : values) column.AppendInteger(value);
  return column;
}
ValueColumn Doubles(std::vector<double> values) {
  ValueColumn column(AttributeType::kDouble);
  for (const double value : values) column.AppendDouble(value);
  return column;
}
ValueColumn Bools(std::vector<bool> values) {
  ValueColumn column(AttributeType::kBool);
  for (const bool value : values) column.AppendBool(value);
  return column;
}
ValueColumn Keywords(std::vector<std::string> values) {
  ValueColumn column(AttributeType::kKeyword);
  for (const std::string& value : values) column.AppendKeyword(value);
  return column;
}
ValueColumn One(const ValueColumn& values, int64_t index) {
  ValueColumn column(values.type());
  column.AppendFrom(values, index);
  return column;
}

std::vector<AttributeSpec> RandomSpecs(Random& random) {
  std::vector<AttributeSpec> specs;
  for (const AttributeType type : kTypes) {
    for (const bool is_list : {false, true}) {
      if (random.OneIn(5)) continue;
      specs.push_back({.name = std::string(NameOf(type)) + (is_list ? "s" : ""),
                       .type = type,
                       .is_list = is_list});
    }
  }
  if (specs.empty()) specs.push_back({.name = "x"});
  random.Shuffle(specs);
  return specs;
}

void AppendRandomValue(Random& random, ValueColumn* values) {
  switch (values->type()) {
    case AttributeType::kInt64:
    case AttributeType::kTimestamp:
      values->AppendInteger(random.OneOf<int64_t>(
          {INT64_MIN, INT64_MIN + 1, INT64_MAX, -1, 0, 1, 2, 3, int64_t{1} << 53,
           (int64_t{1} << 53) + 1, random.Between(-20, 20), static_cast<int64_t>(random.Bits())}));
      return;
    case AttributeType::kDouble: {
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      constexpr double kDenormal = std::numeric_limits<double>::denorm_min();
      values->AppendDouble(random.OneOf<double>(
          {-kInfinity, kInfinity, 0.0, -0.0, kDenormal, -kDenormal, DBL_MAX, -DBL_MAX, DBL_MIN, 1.0,
           -1.0, 0.5, 1.0 + DBL_EPSILON, static_cast<double>(random.Between(-9, 9)),
           static_cast<double>(random.Gaussian())}));
      return;
    }
    case AttributeType::kBool: values->AppendBool(random.OneIn(2)); return;
    case AttributeType::kKeyword: {
      static const auto* const kWords = new std::vector<std::string>{"",
                                                                     "a",
                                                                     "b",
                                                                     "ab",
                                                                     std::string("a\0", 2),
                                                                     std::string(1, '\0'),
                                                                     "\xc3\xa4",
                                                                     "\x7f",
                                                                     "z",
                                                                     std::string(300, 'z')};
      const std::string drawn = std::to_string(random.Between(0, 50));
      values->AppendKeyword(random.OneIn(3) ? drawn : random.OneOf<std::string>(*kWords));
      return;
    }
  }
}

FilterTree RandomFilter(Random& random, const std::vector<AttributeSpec>& specs, int depth,
                        uint64_t ids_count) {
  if (depth > 1 && !random.OneIn(3)) {
    std::vector<FilterTree> filters;
    const int64_t children = random.OneIn(20) ? 9 : random.Between(1, 4);
    for (int64_t i = 0; i < children; ++i)
      filters.push_back(RandomFilter(random, specs, depth - 1, ids_count));
    if (random.OneIn(3)) return Not(std::move(filters[0]));
    return random.OneIn(2) ? And(std::move(filters)) : Or(std::move(filters));
  }
  if (random.OneIn(10)) {
    IdColumn ids;
    for (int64_t i = random.Between(1, 6); i > 0; --i)
      ids.AppendNumber(random.Bits() % (ids_count + 3));
    return HasId(std::move(ids));
  }
  const AttributeSpec& spec = random.OneOf<AttributeSpec>(specs);
  if (random.OneIn(8)) return Exists(spec.name);
  ValueColumn values(spec.type);
  AppendRandomValue(random, &values);
  if (!spec.is_list && random.OneIn(2)) {
    const int64_t comparisons = spec.type == AttributeType::kBool ? 2 : 6;
    return Compare(spec.name, static_cast<Comparison>(random.Between(0, comparisons)),
                   std::move(values));
  }
  for (int64_t i = random.Between(0, 5); i > 0; --i) AppendRandomValue(random, &values);
  const ConditionKind on_list = random.OneIn(2) ? ConditionKind::kListAny : ConditionKind::kListAll;
  return OfValues(spec.is_list ? on_list : ConditionKind::kIn, spec.name, std::move(values));
}

}  // namespace nearfield::server

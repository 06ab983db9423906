#include "server/convert/filter.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/attributes/filter_text.h"
#include "server/convert/attributes.h"
#include "server/convert/enum_table.h"

namespace nearfield::server {
namespace {

constexpr std::pair<pb::ComparisonOperator, Comparison> kComparisons[] = {
    {pb::COMPARISON_OPERATOR_EQUAL, Comparison::kEqual},
    {pb::COMPARISON_OPERATOR_NOT_EQUAL, Comparison::kNotEqual},
    {pb::COMPARISON_OPERATOR_LESS, Comparison::kLess},
    {pb::COMPARISON_OPERATOR_LESS_EQUAL, Comparison::kLessEqual},
    {pb::COMPARISON_OPERATOR_GREATER, Comparison::kGreater},
    {pb::COMPARISON_OPERATOR_GREATER_EQUAL, Comparison::kGreaterEqual}};
constexpr std::pair<pb::Filter::ConditionCase, ConditionKind> kConditionKinds[] = {
    {pb::Filter::kAnd, ConditionKind::kAnd},
    {pb::Filter::kOr, ConditionKind::kOr},
    {pb::Filter::kNot, ConditionKind::kNot},
    {pb::Filter::kComparison, ConditionKind::kComparison},
    {pb::Filter::kIn, ConditionKind::kIn},
    {pb::Filter::kListAny, ConditionKind::kListAny},
    {pb::Filter::kListAll, ConditionKind::kListAll},
    {pb::Filter::kExists, ConditionKind::kExists},
    {pb::Filter::kHasId, ConditionKind::kHasId}};

std::optional<ValueColumn> ValueFromProto(const pb::AttributeValue& message) {
  ValueColumn value;
  switch (message.value_case()) {
    case pb::AttributeValue::kInt64Value: value.AppendInteger(message.int64_value()); break;
    case pb::AttributeValue::kDoubleValue:
      value = ValueColumn(AttributeType::kDouble);
      value.AppendDouble(message.double_value());
      break;
    case pb::AttributeValue::kBoolValue:
      value = ValueColumn(AttributeType::kBool);
      value.AppendBool(message.bool_value());
      break;
    case pb::AttributeValue::kKeywordValue:
      value = ValueColumn(AttributeType::kKeyword);
      value.AppendKeyword(message.keyword_value());
      break;
    case pb::AttributeValue::kTimestampUsValue:
      value = ValueColumn(AttributeType::kTimestamp);
      value.AppendInteger(message.timestamp_us_value());
      break;
    case pb::AttributeValue::VALUE_NOT_SET: return std::nullopt;
  }
  return value;
}

class TreeMaker {
 public:
  TreeMaker(IdType id_type, const AttributeLimits& limits) : id_type_(id_type), limits_(limits) {}

  absl::StatusOr<FilterTree> Run(const pb::Filter& root) {
    waiting_.push_back({.message = &root});
    while (!waiting_.empty()) {
      const Waiting next = waiting_.back();
      waiting_.pop_back();
      ABSL_RETURN_IF_ERROR(Take(next));
    }
    return std::move(tree_);
  }

 private:
  // A filter whose condition is not in the tree yet. The next one to add is at the back.
  struct Waiting {
    const pb::Filter* message = nullptr;
    int32_t parent = -1;
    int64_t level = 1;
  };

  absl::Status Take(const Waiting& next) {
    const auto path = [&] {
      return next.parent < 0 ? std::string("filter") : PathOfNextChild(tree_, next.parent);
    };
    if (next.level > limits_.filter_depth_max) return TooDeep(path(), limits_);
    if (static_cast<int64_t>(tree_.conditions.size()) >= limits_.filter_conditions_max) {
      return TooManyConditions(path(), limits_);
    }
    const std::optional<ConditionKind> kind =
        NativeIn(kConditionKinds, next.message->condition_case());
    if (!kind.has_value()) return ArgumentError(path(), "no condition is set");
    const auto place = static_cast<int32_t>(tree_.conditions.size());
    if (next.parent >= 0) {
      tree_.conditions[static_cast<size_t>(next.parent)].children.push_back(place);
    }
    Condition condition;
    condition.kind = *kind;
    tree_.conditions.push_back(std::move(condition));
    switch (*kind) {
      case ConditionKind::kAnd: return TakeLater(next.message->and_(), place, next.level + 1);
      case ConditionKind::kOr: return TakeLater(next.message->or_(), place, next.level + 1);
      case ConditionKind::kNot:
        waiting_.push_back(
            {.message = &next.message->not_(), .parent = place, .level = next.level + 1});
        return absl::OkStatus();
      default: return TakeLeaf(*next.message, place);
    }
  }

  absl::Status TakeLater(const pb::FilterList& list, int32_t place, int64_t level) {
    const auto in_tree = static_cast<int64_t>(tree_.conditions.size() + waiting_.size());
    if (list.filters_size() > limits_.filter_conditions_max - in_tree) {
      return TooManyConditions(PathOf(tree_, place), limits_);
    }
    for (int i = list.filters_size(); i-- > 0;) {
      waiting_.push_back({.message = &list.filters(i), .parent = place, .level = level});
    }
    return absl::OkStatus();
  }

  absl::Status TakeLeaf(const pb::Filter& filter, int32_t place) {
    switch (tree_.conditions.back().kind) {
      case ConditionKind::kComparison: return TakeComparison(filter.comparison(), place);
      case ConditionKind::kIn: return TakeValues(filter.in_(), place);
      case ConditionKind::kListAny: return TakeValues(filter.list_any(), place);
      case ConditionKind::kListAll: return TakeValues(filter.list_all(), place);
      case ConditionKind::kExists:
        tree_.conditions.back().attribute = filter.exists().attribute();
        return absl::OkStatus();
      default: {
        ABSL_ASSIGN_OR_RETURN(tree_.conditions.back().ids,
                              IdsFromProto(PathOf(tree_, place), filter.has_id(), id_type_,
                                           {.min = 1, .max = limits_.filter_values_max}));
        return absl::OkStatus();
      }
    }
  }

  absl::Status TakeComparison(const pb::Comparison& comparison, int32_t place) {
    const std::optional<Comparison> op = NativeIn(kComparisons, comparison.op());
    if (!op.has_value()) {
      return ArgumentError(PathOf(tree_, place) + ".op",
                           absl::StrCat(static_cast<int>(comparison.op()),
                                        ", must be EQUAL, NOT_EQUAL, LESS, LESS_EQUAL, GREATER or "
                                        "GREATER_EQUAL"));
    }
    std::optional<ValueColumn> value = ValueFromProto(comparison.value());
    if (!value.has_value()) {
      return ArgumentError(PathOf(tree_, place) + ".value", "none of its members is set");
    }
    Condition& condition = tree_.conditions.back();
    condition.attribute = comparison.attribute();
    condition.comparison = *op;
    condition.values = *std::move(value);
    return absl::OkStatus();
  }

  absl::Status TakeValues(const pb::ValueCondition& message, int32_t place) {
    const int64_t count = ValuesCount(message.values());
    if (count > limits_.filter_values_max) {
      return TooManyValues(PathOf(tree_, place), count, limits_);
    }
    ABSL_ASSIGN_OR_RETURN(const std::optional<AttributeType> type,
                          TypeOfValues(PathOf(tree_, place) + ".values", message.values()));
    Condition& condition = tree_.conditions.back();
    condition.attribute = message.attribute();
    // ValidateFilter rejects a condition without values.
    if (type.has_value()) condition.values = ValuesFromProto(message.values(), *type);
    return absl::OkStatus();
  }

  const IdType id_type_;
  const AttributeLimits& limits_;
  FilterTree tree_;
  std::vector<Waiting> waiting_;
};

absl::StatusOr<FilterTree> TreeOf(const GivenFilter& given, IdType id_type,
                                  const AttributeSchema& schema, const AttributeLimits& limits) {
  if (given.text == nullptr) return FromProto(*given.message, id_type, limits);
  if (given.message != nullptr) {
    return ArgumentError(kFilterTextField, "given with filter, must be one of the two");
  }
  return ParseFilterText(*given.text, id_type, schema, limits);
}

}  // namespace

absl::StatusOr<FilterTree> FromProto(const pb::Filter& filter, IdType id_type,
                                     const AttributeLimits& limits) {
  return TreeMaker(id_type, limits).Run(filter);
}

SentFilter ToSent(const GivenFilter& given) {
  SentFilter sent;
  if (given.message != nullptr) sent.message = given.message->SerializeAsString();
  if (given.text != nullptr) sent.text = *given.text;
  return sent;
}

absl::StatusOr<Filter> ValidFilter(const GivenFilter& given, IdType id_type,
                                   const AttributeSchema& schema) {
  const AttributeLimits limits;
  ABSL_ASSIGN_OR_RETURN(FilterTree tree, TreeOf(given, id_type, schema, limits));
  return ValidateFilter(std::move(tree), schema, limits);
}

int64_t FilterMemoryMax(const GivenFilter& given) {
  return given.text == nullptr ? 0 : FilterTextMemoryMax(*given.text, AttributeLimits());
}

}  // namespace nearfield::server

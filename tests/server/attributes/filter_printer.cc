#include "tests/server/attributes/filter_printer.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "client/value_text/timestamp_text.h"
#include "server/attributes/filter_tokens.h"

namespace nearfield::server {
namespace {

// Quotes with '"' and "'" by turns, so that tests see both.
std::string Quoted(std::string_view text) {
  const std::string json = nlohmann::json(std::string(text)).dump();
  if (text.size() % 2 == 0) return json;
  std::string quoted = "'";
  for (size_t i = 1; i + 1 < json.size(); ++i) {
    if (json[i] == '\\') {
      if (json[++i] != '"') quoted += '\\';
    } else if (json[i] == '\'') {
      quoted += '\\';
    }
    quoted += json[i];
  }
  return quoted + "'";
}

std::string ValueText(const ValueColumn& values, int64_t i) {
  switch (values.type()) {
    case AttributeType::kInt64: return std::to_string(values.bits(i));
    case AttributeType::kBool: return values.bits(i) == 1 ? "true" : "false";
    case AttributeType::kKeyword: return Quoted(values.keyword(i));
    case AttributeType::kTimestamp: {
      const Microseconds time{std::chrono::microseconds(values.bits(i))};
      return HasTimestampText(time) ? "'" + TimestampText(time) + "'" : TimestampText(time);
    }
    case AttributeType::kDouble: break;
  }
  char text[40];
  const auto written = std::to_chars(std::begin(text), std::end(text), values.number(i));
  return {std::begin(text), written.ptr};
}

template <typename ElementText>
std::string ListText(int64_t count, const ElementText& text_of) {
  std::string text = "(";
  for (int64_t i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + text_of(i);
  return text + ")";
}

std::string ConditionText(const Condition& condition) {
  constexpr const char* kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
  const auto values = [&] {
    return ListText(condition.values.size(),
                    [&](int64_t i) { return ValueText(condition.values, i); });
  };
  const std::string name =
      IsFilterWord(condition.attribute) ? "`" + condition.attribute + "`" : condition.attribute;
  switch (condition.kind) {
    case ConditionKind::kComparison:
      return name + kComparisons[static_cast<size_t>(condition.comparison)] +
             ValueText(condition.values, 0);
    case ConditionKind::kIn: return name + " in " + values();
    case ConditionKind::kListAny: return name + " any " + values();
    case ConditionKind::kListAll: return name + " all " + values();
    case ConditionKind::kHasId:
      return "id in " + ListText(condition.ids.size(), [&](int64_t i) {
               return condition.ids.type() == IdType::kUint64
                          ? std::to_string(condition.ids.number(i))
                          : Quoted(condition.ids.string(i));
             });
    default: return "exists(" + name + ")";
  }
}

// The levels of the filter bound this recursion.
std::string TextAt(const FilterTree& tree, int32_t place) {
  const Condition& condition = tree.conditions[static_cast<size_t>(place)];
  const bool is_and = condition.kind == ConditionKind::kAnd;
  const bool is_or = condition.kind == ConditionKind::kOr;
  const auto operand = [&](int32_t child) {
    const ConditionKind kind = tree.conditions[static_cast<size_t>(child)].kind;
    const bool binds = (kind != ConditionKind::kAnd && kind != ConditionKind::kOr) ||
                       (kind == ConditionKind::kAnd && is_or);
    return binds ? TextAt(tree, child) : "(" + TextAt(tree, child) + ")";
  };
  if (condition.kind == ConditionKind::kNot) return "not " + operand(condition.children[0]);
  if (!is_and && !is_or) return ConditionText(condition);
  const std::string word = is_and ? " and " : " or ";
  std::string text = operand(condition.children[0]);
  if (condition.children.size() == 1) return text + word + text;
  for (size_t i = 1; i < condition.children.size(); ++i) {
    text += word + operand(condition.children[i]);
  }
  return text;
}

}  // namespace

std::string TextOf(const FilterTree& tree) { return TextAt(tree, 0); }

bool FitsAsText(const FilterTree& tree) {
  // At most three of four levels are printed twice.
  return FilterDepth(tree) <= 4 && tree.conditions.size() <= 30 && FilterBytes(tree) <= 8000;
}

}  // namespace nearfield::server

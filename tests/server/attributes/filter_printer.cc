#include "tests/server/attributes/filter_printer.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "client/value_text/timestamp_text.h"
#include "server/attributes/filter_tokens.h"
#include "tests/server/attributes/filter_maker.h"

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

// Returns int64 values that the server converts to these, or the values themselves.
ValueColumn AsIntegers(const ValueColumn& values) {
  ValueColumn integers;
  for (int64_t i = 0; i < values.size(); ++i) {
    if (values.type() == AttributeType::kTimestamp) {
      integers.AppendInteger(values.bits(i));
      continue;
    }
    if (values.type() != AttributeType::kDouble || values.is_negative_zero(i)) return values;
    const double number = values.number(i);
    if (!(std::abs(number) < 0x1p62) || std::trunc(number) != number) return values;
    integers.AppendInteger(static_cast<int64_t>(number));
  }
  return integers;
}

// Returns texts that the server converts to these times, or the values themselves.
ValueColumn AsTexts(const ValueColumn& values) {
  if (values.type() != AttributeType::kTimestamp) return values;
  ValueColumn texts(AttributeType::kKeyword);
  for (int64_t i = 0; i < values.size(); ++i) {
    const Microseconds time{std::chrono::microseconds(values.bits(i))};
    if (!HasTimestampText(time)) return values;
    texts.AppendKeyword(TimestampText(time));
  }
  return texts;
}

class Printer {
 public:
  // Without `random`, nothing is an argument.
  Printer(const FilterTree& tree, testing::Random* random) : tree_(tree), random_(random) {}

  PrintedFilter Print() {
    PrintedFilter printed{.text = TextAt(0)};
    printed.arguments = std::move(arguments_);
    return printed;
  }

 private:
  bool Chooses() { return random_ != nullptr && random_->OneIn(2); }
  std::string Argument(FilterArgument argument) {
    arguments_.push_back(std::move(argument));
    return "$" + std::to_string(arguments_.size());
  }
  std::string Argument(const ValueColumn& values) {
    if (Chooses()) return Argument(FilterArgument(AsIntegers(values)));
    return Argument(FilterArgument(Chooses() ? AsTexts(values) : values));
  }

  std::string ValueAt(const ValueColumn& values, int64_t i) {
    return Chooses() ? Argument(One(values, i)) : ValueText(values, i);
  }
  std::string ValuesOf(const ValueColumn& values) {
    if (Chooses()) return Argument(values);
    return ListText(values.size(), [&](int64_t i) { return ValueAt(values, i); });
  }
  std::string IdsOf(const IdColumn& ids) {
    if (Chooses()) return Argument(FilterArgument(ids));
    return ListText(ids.size(), [&](int64_t i) {
      return ids.type() == IdType::kUint64 ? std::to_string(ids.number(i)) : Quoted(ids.string(i));
    });
  }

  std::string ConditionText(const Condition& condition) {
    constexpr const char* kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};
    const std::string name =
        IsFilterWord(condition.attribute) ? "`" + condition.attribute + "`" : condition.attribute;
    switch (condition.kind) {
      case ConditionKind::kComparison:
        return name + kComparisons[static_cast<size_t>(condition.comparison)] +
               ValueAt(condition.values, 0);
      case ConditionKind::kIn: return name + " in " + ValuesOf(condition.values);
      case ConditionKind::kListAny: return name + " any " + ValuesOf(condition.values);
      case ConditionKind::kListAll: return name + " all " + ValuesOf(condition.values);
      case ConditionKind::kHasId: return "id in " + IdsOf(condition.ids);
      default: return "exists(" + name + ")";
    }
  }

  // The levels of the filter bound this recursion.
  std::string TextAt(int32_t place) {
    const Condition& condition = tree_.conditions[static_cast<size_t>(place)];
    const bool is_and = condition.kind == ConditionKind::kAnd;
    const bool is_or = condition.kind == ConditionKind::kOr;
    const auto operand = [&](int32_t child) {
      const ConditionKind kind = tree_.conditions[static_cast<size_t>(child)].kind;
      const bool binds = (kind != ConditionKind::kAnd && kind != ConditionKind::kOr) ||
                         (kind == ConditionKind::kAnd && is_or);
      return binds ? TextAt(child) : "(" + TextAt(child) + ")";
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

  const FilterTree& tree_;
  testing::Random* const random_;
  std::vector<FilterArgument> arguments_;
};

}  // namespace

std::string TextOf(const FilterTree& tree) { return Printer(tree, nullptr).Print().text; }

PrintedFilter PrintWithArguments(const FilterTree& tree, testing::Random& random) {
  return Printer(tree, &random).Print();
}

bool FitsAsText(const FilterTree& tree) {
  // At most three of four levels are printed twice.
  return FilterDepth(tree) <= 4 && tree.conditions.size() <= 30 && FilterBytes(tree) <= 8000;
}

}  // namespace nearfield::server

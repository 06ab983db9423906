#include "server/attributes/filter_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/attributes/filter_tokens.h"
#include "server/attributes/filter_values.h"

namespace nearfield::server {
namespace {

using TokenKind = FilterToken::Kind;

// Maximum nesting of brackets and "not"s. Brackets alone are not a level of the filter.
constexpr int kNestingMax = 64;
// An error stops to list the declared attributes after this many bytes.
constexpr size_t kListedBytesMax = 400;

constexpr std::pair<const char*, Comparison> kComparisons[] = {
    {"==", Comparison::kEqual},  {"!=", Comparison::kNotEqual},
    {"<", Comparison::kLess},    {"<=", Comparison::kLessEqual},
    {">", Comparison::kGreater}, {">=", Comparison::kGreaterEqual}};
constexpr std::pair<const char*, ConditionKind> kSets[] = {
    {"in", ConditionKind::kIn}, {"any", ConditionKind::kListAny}, {"all", ConditionKind::kListAll}};

// Returns what an error says about the attributes that may be named: "it declares year:int64".
std::string Declared(const AttributeSchema& schema) {
  const std::vector<int32_t>& declared = schema.declared();
  if (declared.empty()) return "it declares none";
  std::string text = "it declares ";
  for (size_t i = 0; i < declared.size(); ++i) {
    if (text.size() > kListedBytesMax) {
      return absl::StrCat(text, " and ", declared.size() - i, " more");
    }
    const AttributeSpec& spec = schema.at(declared[i]);
    absl::StrAppend(&text, i > 0 ? ", " : "", spec.name, ":", NameOf(spec.type),
                    spec.is_list ? "[]" : "");
  }
  return text;
}

// Converts conditions with each child before its parent to a tree, which has the root first.
FilterTree RootFirst(std::vector<Condition> conditions) {
  std::reverse(conditions.begin(), conditions.end());
  const auto last = static_cast<int32_t>(conditions.size()) - 1;
  for (Condition& condition : conditions) {
    for (int32_t& child : condition.children) child = last - child;
  }
  return {.conditions = std::move(conditions)};
}

Condition OfKind(ConditionKind kind) {
  Condition condition;
  condition.kind = kind;
  return condition;
}

// A recursive-descent parser. Each Take... function takes its tokens, or fails.
class Parser {
 public:
  Parser(std::string_view text, absl::Span<const FilterArgument> arguments, IdType id_type,
         const AttributeSchema& schema, const AttributeLimits& limits, const FilterFields& fields)
      : text_(text),
        arguments_(arguments),
        id_type_(id_type),
        schema_(schema),
        limits_(limits),
        fields_(fields),
        is_named_(arguments.size(), false) {}

  absl::StatusOr<FilterTree> Parse() {
    if (static_cast<int64_t>(text_.size()) > limits_.filter_text_bytes_max) {
      return MustBe(fields_.text, absl::StrCat(text_.size(), " bytes"),
                    absl::StrCat("at most ", limits_.filter_text_bytes_max));
    }
    Advance();
    if (token_.kind == TokenKind::kEnd) return Bad("a filter is expected");
    ABSL_RETURN_IF_ERROR(TakeOr().status());
    if (token_.kind != TokenKind::kEnd) return Bad("expected \"and\", \"or\" or the end");
    for (size_t i = 0; i < is_named_.size(); ++i) {
      if (is_named_[i]) continue;
      return ArgumentError(absl::StrCat(fields_.arguments, "[", i, "]"),
                           absl::StrCat("$", i + 1, " does not occur in ", fields_.text));
    }
    return RootFirst(std::move(conditions_));
  }

 private:
  // A part of the filter: its root in conditions_, and its number of levels.
  struct Part {
    int32_t place = 0;
    int64_t levels = 1;
  };
  using Rule = absl::StatusOr<Part> (Parser::*)();

  void Advance() {
    size_t end = 0;
    token_ = NextFilterToken(text_, next_, &end);
    next_ = end;
  }

  // Returns an error at byte `at`.
  absl::Status BadAt(size_t at, absl::string_view reason) const {
    const auto characters = std::count_if(
        text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at),
        [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });  // not a continuation
    return ArgumentError(fields_.text, absl::StrCat("column ", characters + 1, ": ", reason));
  }

  // Returns an error at the current token; a bad token has its own message.
  absl::Status Bad(absl::string_view reason) const {
    return BadAt(token_.at, token_.kind == TokenKind::kBad ? token_.text : reason);
  }

  absl::Status TakeSymbol(const char* symbol) {
    if (!token_.IsSymbol(symbol)) return Bad(absl::StrCat("expected ", symbol));
    Advance();
    return absl::OkStatus();
  }

  // Adds a condition, which began at byte `at`, to the filter. Errors: InvalidArgument (a limit).
  absl::StatusOr<Part> Add(Condition condition, int64_t levels, size_t at) {
    if (levels > limits_.filter_depth_max) {
      return BadAt(at, absl::StrCat("\"and\", \"or\" and \"not\" are nested too deep: a filter has "
                                    "at most ",
                                    limits_.filter_depth_max, " levels"));
    }
    if (static_cast<int64_t>(conditions_.size()) >= limits_.filter_conditions_max) {
      return BadAt(at, absl::StrCat("a filter has at most ", limits_.filter_conditions_max,
                                    " conditions; each \"and\", \"or\" and \"not\" is one, too"));
    }
    bytes_ += FilterBytes(condition);
    if (bytes_ > limits_.filter_bytes_max) {
      return BadAt(at, absl::StrCat("a filter has at most ", limits_.filter_bytes_max,
                                    " bytes of conditions, names, values and ids"));
    }
    conditions_.push_back(std::move(condition));
    return Part{.place = static_cast<int32_t>(conditions_.size()) - 1, .levels = levels};
  }

  absl::StatusOr<Part> TakeOr() { return TakeJunction("or", ConditionKind::kOr, &Parser::TakeAnd); }
  absl::StatusOr<Part> TakeAnd() {
    return TakeJunction("and", ConditionKind::kAnd, &Parser::TakeOperand);
  }

  // Takes operands separated by `word`; a single operand stays as it is.
  absl::StatusOr<Part> TakeJunction(const char* word, ConditionKind kind, Rule operand) {
    const size_t at = token_.at;
    ABSL_ASSIGN_OR_RETURN(const Part first, (this->*operand)());
    if (!token_.IsWord(word)) return first;
    Condition junction = OfKind(kind);
    junction.children.push_back(first.place);
    int64_t levels = first.levels;
    while (token_.IsWord(word)) {
      Advance();
      ABSL_ASSIGN_OR_RETURN(const Part next, (this->*operand)());
      levels = std::max(levels, next.levels);
      junction.children.push_back(next.place);
    }
    return Add(std::move(junction), levels + 1, at);
  }

  absl::StatusOr<Part> TakeOperand() {
    if (nesting_ == kNestingMax) {
      return Bad(absl::StrCat("more than ", kNestingMax, " brackets and nots"));
    }
    ++nesting_;
    const size_t at = token_.at;
    absl::StatusOr<Part> part = token_.IsWord("not")   ? TakeNot(at)
                                : token_.IsSymbol("(") ? TakeBrackets()
                                                       : TakeCondition(at);
    --nesting_;
    return part;
  }

  absl::StatusOr<Part> TakeNot(size_t at) {
    Advance();
    ABSL_ASSIGN_OR_RETURN(const Part operand, TakeOperand());
    Condition negation = OfKind(ConditionKind::kNot);
    negation.children.push_back(operand.place);
    return Add(std::move(negation), operand.levels + 1, at);
  }

  absl::StatusOr<Part> TakeBrackets() {
    Advance();
    ABSL_ASSIGN_OR_RETURN(const Part inner, TakeOr());
    ABSL_RETURN_IF_ERROR(TakeSymbol(")"));
    return inner;
  }

  absl::StatusOr<Part> TakeCondition(size_t at) {
    Condition condition;
    ABSL_RETURN_IF_ERROR(Take(&condition));
    return Add(std::move(condition), 1, at);
  }

  absl::Status Take(Condition* condition) {
    if (token_.IsWord("exists")) {
      Advance();
      ABSL_RETURN_IF_ERROR(TakeSymbol("("));
      ABSL_RETURN_IF_ERROR(TakeAttribute(condition).status());
      return TakeSymbol(")");
    }
    if (token_.IsWord("id")) return TakeIds(condition);
    ABSL_ASSIGN_OR_RETURN(const AttributeSpec* const spec, TakeAttribute(condition));
    condition->values = ValueColumn(spec->type);
    for (const auto& [spelling, comparison] : kComparisons) {
      if (!token_.IsSymbol(spelling)) continue;
      condition->kind = ConditionKind::kComparison;
      condition->comparison = comparison;
      return TakeComparison(*spec, condition);
    }
    for (const auto& [spelling, kind] : kSets) {
      if (!token_.IsWord(spelling)) continue;
      condition->kind = kind;
      return TakeMembership(*spec, condition);
    }
    return Bad(spec->is_list ? "expected any or all" : "expected ==, !=, <, <=, >, >= or in");
  }

  absl::StatusOr<const AttributeSpec*> TakeAttribute(Condition* condition) {
    if (token_.kind == TokenKind::kWord && IsFilterWord(token_.text)) {
      return Bad(absl::StrCat("a condition is expected; an attribute named ", token_.text,
                              " stands in backquotes"));
    }
    if (token_.kind != TokenKind::kWord && token_.kind != TokenKind::kName) {
      return Bad("a condition is expected, such as year >= 2020");
    }
    const std::optional<int32_t> number = schema_.Find(token_.text);
    if (!number.has_value()) {
      return Bad(absl::StrCat("the collection declares no attribute ", QuoteText(token_.text), "; ",
                              Declared(schema_)));
    }
    condition->attribute = token_.text;
    Advance();
    return &schema_.at(*number);
  }

  absl::Status TakeComparison(const AttributeSpec& spec, Condition* condition) {
    if (spec.is_list) return Bad(absl::StrCat(spec.name, " is a list: ask with any or all"));
    const bool orders = condition->comparison != Comparison::kEqual &&
                        condition->comparison != Comparison::kNotEqual;
    if (orders && spec.type == AttributeType::kBool) {
      return Bad(absl::StrCat(spec.name, " is a bool, and bools have no order: ask with == or !="));
    }
    Advance();
    return TakeValue(spec, &condition->values);
  }

  absl::Status TakeMembership(const AttributeSpec& spec, Condition* condition) {
    if (spec.is_list ? condition->kind == ConditionKind::kIn
                     : condition->kind == ConditionKind::kListAll) {
      return Bad(absl::StrCat(spec.name, spec.is_list ? " is a list: ask with any or all"
                                                      : " is not a list: ask with in or any"));
    }
    if (!spec.is_list) condition->kind = ConditionKind::kIn;
    Advance();
    ABSL_RETURN_IF_ERROR(TakeList([&] { return TakeValue(spec, &condition->values); },
                                  [&](const FilterArgument& argument) {
                                    return AppendValues(argument, spec, &condition->values);
                                  }));
    if (condition->kind == ConditionKind::kListAll && condition->values.size() == 0) {
      condition->kind = ConditionKind::kExists;
      condition->values = ValueColumn();
    }
    return absl::OkStatus();
  }

  absl::Status TakeIds(Condition* condition) {
    Advance();
    condition->kind = ConditionKind::kHasId;
    condition->ids = IdColumn(id_type_);
    const bool one = token_.IsSymbol("==");
    if (!one && !token_.IsWord("in")) {
      return Bad("expected == or in; an attribute `id` needs backquotes");
    }
    Advance();
    if (one) return TakeId(&condition->ids);
    return TakeList(
        [&] { return TakeId(&condition->ids); },
        [&](const FilterArgument& argument) { return AppendIds(argument, &condition->ids); });
  }

  // Takes "(" element { "," element } ")", or an argument: all of its values.
  template <typename TakeElement, typename Append>
  absl::Status TakeList(const TakeElement& take, const Append& append) {
    if (token_.kind == TokenKind::kArgument) return TakeArgument(append);
    ABSL_RETURN_IF_ERROR(TakeSymbol("("));
    for (int64_t count = 1;; ++count) {
      if (count > limits_.filter_values_max) {
        return Bad(
            absl::StrCat("a condition has at most ", limits_.filter_values_max, " values or ids"));
      }
      ABSL_RETURN_IF_ERROR(take());
      if (!token_.IsSymbol(",")) return TakeSymbol(")");
      Advance();
    }
  }

  absl::Status TakeValue(const AttributeSpec& spec, ValueColumn* values) {
    if (token_.kind != TokenKind::kArgument) return Took(AppendValue(token_, spec, values));
    return TakeArgument([&](const FilterArgument& argument) {
      ABSL_RETURN_IF_ERROR(CheckOne(argument));
      return AppendValues(argument, spec, values);
    });
  }
  absl::Status TakeId(IdColumn* ids) {
    if (token_.kind != TokenKind::kArgument) return Took(AppendId(token_, ids));
    return TakeArgument([&](const FilterArgument& argument) {
      ABSL_RETURN_IF_ERROR(CheckOne(argument));
      return AppendIds(argument, ids);
    });
  }

  // Takes an argument, whose values `append` appends to the condition.
  template <typename Append>
  absl::Status TakeArgument(const Append& append) {
    size_t number = 0;
    if (!absl::SimpleAtoi(token_.text, &number) || number == 0) {
      return Bad("an argument is written $1, $2, ...");
    }
    if (number > arguments_.size()) {
      return Bad(absl::StrCat("$", number, ": not given, ", fields_.arguments, " has ",
                              arguments_.size(),
                              arguments_.size() == 1 ? " element" : " elements"));
    }
    is_named_[number - 1] = true;
    const absl::Status status = append(arguments_[number - 1]);
    if (!status.ok()) return Bad(absl::StrCat("$", number, ": ", status.message()));
    Advance();
    return absl::OkStatus();
  }

  // Goes on after a token that was taken, or returns why it was not.
  absl::Status Took(const absl::Status& status) {
    if (!status.ok()) return Bad(status.message());
    Advance();
    return absl::OkStatus();
  }

  const std::string_view text_;
  const absl::Span<const FilterArgument> arguments_;
  const IdType id_type_;
  const AttributeSchema& schema_;
  const AttributeLimits& limits_;
  const FilterFields fields_;
  std::vector<bool> is_named_;  // of each argument, true if the text named it
  FilterToken token_;           // the current token
  size_t next_ = 0;             // byte after the current token
  int nesting_ = 0;
  std::vector<Condition> conditions_;  // each child before its parent
  int64_t bytes_ = 0;                  // FilterBytes() of conditions_
};

}  // namespace

absl::StatusOr<FilterTree> ParseFilterText(std::string_view text,
                                           absl::Span<const FilterArgument> arguments,
                                           IdType id_type, const AttributeSchema& schema,
                                           const AttributeLimits& limits,
                                           const FilterFields& fields) {
  return Parser(text, arguments, id_type, schema, limits, fields).Parse();
}

int64_t FilterTextMemoryMax(std::string_view text, const ArgumentSize& argument,
                            const AttributeLimits& limits) {
  const auto size = static_cast<int64_t>(text.size());
  if (size > limits.filter_text_bytes_max) return 0;  // refused at once
  // A condition takes at least 4 bytes of text ("not "), a value 2 ("1,"). The bound is about
  // twice the maximum that tests/server/attributes/filter_text_memory_test.cc measures.
  constexpr int64_t kBytesPerCondition = 520;
  constexpr int64_t kBytesPerValue = 64;
  constexpr int64_t kBytesPerByte = 12;
  constexpr int64_t kBytes = 2048;
  const int64_t conditions = std::min(size / 4 + 1, limits.filter_conditions_max);
  // A condition is checked after it has taken an argument, which may be named often.
  const int64_t named = std::count(text.begin(), text.end(), '$');
  const int64_t values =
      std::min(size / 2 + named * argument.values, limits.filter_bytes_max / 4 + argument.values);
  const int64_t bytes =
      size + std::min(named * argument.bytes, limits.filter_bytes_max + argument.bytes);
  return conditions * kBytesPerCondition + values * kBytesPerValue + bytes * kBytesPerByte + kBytes;
}

}  // namespace nearfield::server

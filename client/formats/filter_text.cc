#include "client/formats/filter_text.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "client/formats/filter_values.h"
#include "client/formats/filter_words.h"
#include "client/formats/json_text.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

using Kind = Filter::Kind;
using TokenKind = FilterToken::Kind;

// Maximum nesting of brackets and "not"s. Brackets alone are not a level of the filter.
constexpr int kNestingMax = 64;

struct Operator {
  std::string_view spelling;
  Kind kind;
};
constexpr Operator kComparisons[] = {{"==", Kind::kEqual},  {"!=", Kind::kNotEqual},
                                     {"<", Kind::kLess},    {"<=", Kind::kLessEqual},
                                     {">", Kind::kGreater}, {">=", Kind::kGreaterEqual}};
constexpr Operator kSets[] = {{"in", Kind::kIn}, {"any", Kind::kListAny}, {"all", Kind::kListAll}};

Filter Comparison(Kind kind, std::string attribute, AttributeValue value) {
  switch (kind) {
    case Kind::kEqual: return Filter::Equal(std::move(attribute), std::move(value));
    case Kind::kNotEqual: return Filter::NotEqual(std::move(attribute), std::move(value));
    case Kind::kLess: return Filter::Less(std::move(attribute), std::move(value));
    case Kind::kLessEqual: return Filter::LessEqual(std::move(attribute), std::move(value));
    case Kind::kGreater: return Filter::Greater(std::move(attribute), std::move(value));
    default: return Filter::GreaterEqual(std::move(attribute), std::move(value));
  }
}

Filter Membership(Kind kind, std::string attribute, std::vector<AttributeValue> values) {
  if (kind == Kind::kIn) return Filter::In(std::move(attribute), std::move(values));
  if (kind == Kind::kListAny) return Filter::ListAny(std::move(attribute), std::move(values));
  return Filter::ListAll(std::move(attribute), std::move(values));
}

// A filter with its number of levels.
struct Tree {
  Filter filter;
  size_t levels = 1;
};

class Parser {
 public:
  Parser(std::string_view text, const FilterSchema& schema) : text_(text), schema_(schema) {
    Advance();
  }

  absl::StatusOr<Filter> Parse() {
    if (token_.kind == TokenKind::kEnd) return Bad("a filter is expected");
    NF_ASSIGN_OR_RETURN(Tree tree, ParseOr());
    if (token_.kind != TokenKind::kEnd) return Bad("expected \"and\", \"or\" or the end");
    return std::move(tree.filter);
  }

 private:
  void Advance() {
    size_t end = 0;
    token_ = NextFilterToken(text_, next_, &end);
    next_ = end;
  }

  // Returns an error at the current token; a bad token has its own message.
  absl::Status Bad(std::string_view reason) const {
    return BadFilter(text_, token_.at,
                     token_.kind == TokenKind::kBad ? std::string_view(token_.text) : reason);
  }

  absl::Status TakeSymbol(std::string_view symbol) {
    if (!token_.IsSymbol(symbol)) return Bad(Cat("expected ", symbol));
    Advance();
    return absl::OkStatus();
  }

  absl::StatusOr<Tree> ParseOr() {
    return Operands("or", Filter::Or, [this] { return ParseAnd(); });
  }
  absl::StatusOr<Tree> ParseAnd() {
    return Operands("and", Filter::And, [this] { return ParseNegation(); });
  }

  // Parses operands separated by `word`; a single operand is returned unchanged.
  template <typename Operand>
  absl::StatusOr<Tree> Operands(std::string_view word, Filter (*combine)(std::vector<Filter>),
                                const Operand& operand) {
    const size_t at = token_.at;
    NF_ASSIGN_OR_RETURN(Tree first, operand());
    if (!token_.IsWord(word)) return first;
    size_t levels = first.levels;
    std::vector<Filter> filters;
    filters.push_back(std::move(first.filter));
    while (token_.IsWord(word)) {
      Advance();
      NF_ASSIGN_OR_RETURN(Tree next, operand());
      levels = std::max(levels, next.levels);
      filters.push_back(std::move(next.filter));
    }
    return OneLevelUp(combine(std::move(filters)), levels, at);
  }

  // Returns the filter with one level more than its operands, which have `levels`. Errors:
  // InvalidArgument (too many levels).
  absl::StatusOr<Tree> OneLevelUp(Filter filter, size_t levels, size_t at) const {
    if (levels < kFilterLevelsMax) return Tree{.filter = std::move(filter), .levels = levels + 1};
    return BadFilter(text_, at,
                     Cat("\"and\", \"or\" and \"not\" are nested too deep: a filter has at most ",
                         kFilterLevelsMax, " levels"));
  }

  absl::StatusOr<Tree> ParseNegation() {
    if (nesting_ == kNestingMax) return Bad(Cat("more than ", kNestingMax, " brackets and nots"));
    ++nesting_;
    absl::StatusOr<Tree> tree = ParseUncountedNegation();
    --nesting_;
    return tree;
  }

  absl::StatusOr<Tree> ParseUncountedNegation() {
    const size_t at = token_.at;
    if (token_.IsWord("not")) {
      Advance();
      NF_ASSIGN_OR_RETURN(Tree operand, ParseNegation());
      return OneLevelUp(Filter::Not(std::move(operand.filter)), operand.levels, at);
    }
    if (token_.IsSymbol("(")) {
      Advance();
      NF_ASSIGN_OR_RETURN(Tree inner, ParseOr());
      NF_RETURN_IF_ERROR(TakeSymbol(")"));
      return inner;
    }
    NF_ASSIGN_OR_RETURN(Filter leaf, ParseLeaf());
    return Tree{.filter = std::move(leaf)};
  }

  absl::StatusOr<Filter> ParseLeaf() {
    if (token_.IsWord("exists")) {
      Advance();
      NF_RETURN_IF_ERROR(TakeSymbol("("));
      NF_ASSIGN_OR_RETURN(const AttributeSpec* spec, TakeAttribute());
      NF_RETURN_IF_ERROR(TakeSymbol(")"));
      return Filter::Exists(spec->name);
    }
    if (token_.IsWord("id")) return IdCondition();
    NF_ASSIGN_OR_RETURN(const AttributeSpec* spec, TakeAttribute());
    for (const Operator& op : kComparisons) {
      if (token_.IsSymbol(op.spelling)) return TakeComparison(*spec, op);
    }
    for (const Operator& op : kSets) {
      if (token_.IsWord(op.spelling)) return TakeMembership(*spec, op);
    }
    return Bad(spec->is_list ? "expected any or all" : "expected ==, !=, <, <=, >, >= or in");
  }

  absl::StatusOr<const AttributeSpec*> TakeAttribute() {
    if (token_.kind == TokenKind::kWord && IsFilterWord(token_.text)) {
      return Bad(Cat("a condition is expected; an attribute named ", token_.text,
                     " stands in backquotes"));
    }
    if (token_.kind != TokenKind::kWord && token_.kind != TokenKind::kName) {
      return Bad("a condition is expected, such as year >= 2020");
    }
    for (const AttributeSpec& spec : schema_.attributes) {
      if (spec.name != token_.text) continue;
      Advance();
      return &spec;
    }
    const std::string declared =
        Joined(schema_.attributes, ", ", [](const AttributeSpec& spec) { return ToString(spec); });
    return Bad(Cat("the collection declares no attribute ", QuoteJson(token_.text),
                   declared.empty() ? "; it declares none" : "; it declares ", declared));
  }

  absl::StatusOr<Filter> TakeComparison(const AttributeSpec& spec, const Operator& op) {
    if (spec.is_list) return Bad(Cat(spec.name, " is a list: ask with any or all"));
    const bool orders = op.kind != Kind::kEqual && op.kind != Kind::kNotEqual;
    if (orders && spec.type == AttributeType::kBool) {
      return Bad(Cat(spec.name, " is a bool, and bools have no order: ask with == or !="));
    }
    Advance();
    NF_ASSIGN_OR_RETURN(AttributeValue value, TakeValue(spec));
    return Comparison(op.kind, spec.name, std::move(value));
  }

  absl::StatusOr<Filter> TakeMembership(const AttributeSpec& spec, const Operator& op) {
    if (spec.is_list != (op.kind != Kind::kIn)) {
      return Bad(spec.is_list ? Cat(spec.name, " is a list: ask with any or all")
                              : Cat(spec.name, " is not a list: ask with in"));
    }
    Advance();
    NF_RETURN_IF_ERROR(TakeSymbol("("));
    std::vector<AttributeValue> values;
    do {
      NF_ASSIGN_OR_RETURN(AttributeValue value, TakeValue(spec));
      values.push_back(std::move(value));
    } while (TakeComma());
    NF_RETURN_IF_ERROR(TakeSymbol(")"));
    return Membership(op.kind, spec.name, std::move(values));
  }

  bool TakeComma() {
    if (!token_.IsSymbol(",")) return false;
    Advance();
    return true;
  }

  absl::StatusOr<AttributeValue> TakeValue(const AttributeSpec& spec) {
    absl::StatusOr<AttributeValue> value = ValueOf(token_, spec);
    if (!value.ok()) return Bad(Cat(value.status().message()));
    Advance();
    return value;
  }

  absl::StatusOr<Filter> IdCondition() {
    Advance();
    IdColumn ids = EmptyIds(schema_.id_type);
    if (token_.IsSymbol("==")) {
      Advance();
      NF_RETURN_IF_ERROR(TakeId(&ids));
      return Filter::HasId(std::move(ids));
    }
    if (!token_.IsWord("in")) return Bad("expected == or in; an attribute `id` needs backquotes");
    Advance();
    NF_RETURN_IF_ERROR(TakeSymbol("("));
    do {
      NF_RETURN_IF_ERROR(TakeId(&ids));
    } while (TakeComma());
    NF_RETURN_IF_ERROR(TakeSymbol(")"));
    return Filter::HasId(std::move(ids));
  }

  absl::Status TakeId(IdColumn* ids) {
    const absl::StatusOr<Id> id = IdOf(token_, schema_.id_type);
    if (!id.ok()) return Bad(Cat(id.status().message()));
    Append(*id, ids);
    Advance();
    return absl::OkStatus();
  }

  const std::string_view text_;
  const FilterSchema& schema_;
  FilterToken token_;  // the current token
  size_t next_ = 0;    // byte after the current token
  int nesting_ = 0;
};

std::string NameText(const std::string& name) {
  return IsFilterWord(name) ? Cat("`", name, "`") : name;
}

std::string IdsText(const IdColumn& ids) {
  const auto* texts = std::get_if<std::vector<std::string>>(&ids);
  return Cat("id in (",
             texts != nullptr ? Joined(*texts, ", ", QuoteJson)
                              : Joined(std::get<std::vector<uint64_t>>(ids), ", ", std::identity()),
             ")");
}

bool IsJunction(const Filter& filter) {
  return filter.kind() == Kind::kAnd || filter.kind() == Kind::kOr;
}

// Returns the filter that remains after removing every `and` and `or` of a single operand.
const Filter& Inner(const Filter& filter) {
  const Filter* inner = &filter;
  while (IsJunction(*inner) && inner->operands().size() == 1) inner = &inner->operands().front();
  return *inner;
}

}  // namespace

absl::StatusOr<Filter> ParseFilter(std::string_view text, const FilterSchema& schema) {
  return Parser(text, schema).Parse();
}

std::string FilterText(const Filter& given) {
  const Filter& filter = Inner(given);
  // An `and` inside an `or` needs no brackets, but they make it easier to read.
  const auto operand = [](const Filter& inner) {
    return IsJunction(Inner(inner)) ? Cat("(", FilterText(inner), ")") : FilterText(inner);
  };
  if (filter.kind() == Kind::kNot) return Cat("not ", operand(filter.operands().front()));
  if (IsJunction(filter)) {
    const std::string_view word = filter.kind() == Kind::kAnd ? " and " : " or ";
    return Joined(filter.operands(), word, operand);
  }
  if (filter.kind() == Kind::kHasId) return IdsText(filter.ids());
  const std::string name = NameText(filter.attribute());
  if (filter.kind() == Kind::kExists) return Cat("exists(", name, ")");
  const std::string values = Joined(filter.values(), ", ", ValueText);
  for (const Operator& op : kComparisons) {
    if (op.kind == filter.kind()) return Cat(name, " ", op.spelling, " ", values);
  }
  for (const Operator& op : kSets) {
    if (op.kind == filter.kind()) return Cat(name, " ", op.spelling, " (", values, ")");
  }
  return "";
}

}  // namespace nearfield::client

#include "nearfield/client/filter.h"

#include <cstddef>

#include "client/formats/text.h"

namespace nearfield::client {
namespace {

// Returns the name in backquotes, where every text is a name.
std::string Quoted(std::string_view attribute) {
  std::string name = "`";
  for (const char c : attribute) name.append(c == '`' ? 2 : 1, c);
  return name + "`";
}

Filter Compare(std::string_view attribute, std::string_view sign, FilterArgument argument) {
  return Filter(Cat(Quoted(attribute), " ", sign, " $1"), {std::move(argument)});
}

// Returns the byte after a quoted part that begins at `at`; the end if nothing closes it.
size_t QuotedEnd(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\' && quote != '`') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return text.size();
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Appends a text whose arguments follow `before` others: $1 becomes $4 after three.
void AppendRenumbered(std::string_view text, size_t before, std::string* to) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    if (text[at] == '"' || text[at] == '\'' || text[at] == '`') {
      end = QuotedEnd(text, at);
    } else if (text[at] == '$') {
      while (end < text.size() && IsDigit(text[end])) ++end;
      const auto number = ParseNumber<size_t>(text.substr(at + 1, end - at - 1));
      if (number) {
        *to += Cat("$", *number + before);
        at = end;
        continue;
      }
    }
    *to += text.substr(at, end - at);
    at = end;
  }
}

}  // namespace

Filter Filter::Joined(const std::vector<Filter>& filters, std::string_view word) {
  Filter joined("");
  for (const Filter& filter : filters) {
    joined.text_ += joined.text_.empty() ? "(" : Cat(" ", word, " (");
    AppendRenumbered(filter.text_, joined.arguments_.size(), &joined.text_);
    joined.text_ += ")";
    joined.arguments_.insert(joined.arguments_.end(), filter.arguments_.begin(),
                             filter.arguments_.end());
  }
  return joined;
}

Filter Filter::And(const std::vector<Filter>& filters) { return Joined(filters, "and"); }
Filter Filter::Or(const std::vector<Filter>& filters) { return Joined(filters, "or"); }
Filter Filter::Not(const Filter& filter) {
  return Filter(Cat("not (", filter.text_, ")"), filter.arguments_);
}

Filter Filter::Equal(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, "==", std::move(value));
}
Filter Filter::NotEqual(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, "!=", std::move(value));
}
Filter Filter::Less(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, "<", std::move(value));
}
Filter Filter::LessEqual(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, "<=", std::move(value));
}
Filter Filter::Greater(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, ">", std::move(value));
}
Filter Filter::GreaterEqual(std::string_view attribute, AttributeValue value) {
  return Compare(attribute, ">=", std::move(value));
}
Filter Filter::In(std::string_view attribute, std::vector<AttributeValue> values) {
  return Compare(attribute, "in", std::move(values));
}
Filter Filter::ListAny(std::string_view attribute, std::vector<AttributeValue> values) {
  return Compare(attribute, "any", std::move(values));
}
Filter Filter::ListAll(std::string_view attribute, std::vector<AttributeValue> values) {
  return Compare(attribute, "all", std::move(values));
}
Filter Filter::Exists(std::string_view attribute) {
  return Filter(Cat("exists(", Quoted(attribute), ")"));
}
Filter Filter::HasId(IdColumn ids) { return Filter("id in $1", {std::move(ids)}); }

}  // namespace nearfield::client

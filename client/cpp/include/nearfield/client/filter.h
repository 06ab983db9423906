// Filter: a condition on rows, on their attributes and on their ids.
//
//   const Filter filter("language in $1 and year >= $2", {{"de", "fr"}, 2020});
//   const Filter same = Filter::And({Filter::In("language", {"de", "fr"}),
//                                    Filter::GreaterEqual("year", 2020)});
//
// proto/nearfield/v1/common.proto, "Filters", has the grammar, says which rows pass, and has the
// limits.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// The meaning of $1, $2, ... in a filter's text: one value, a list of values of one type, or ids.
class FilterArgument {
 public:
  using Values = std::vector<AttributeValue>;

  template <std::convertible_to<AttributeValue> T>
  FilterArgument(T value)  // NOLINT: implicit on purpose
      : values_{AttributeValue(std::move(value))} {}
  FilterArgument(Values values) : values_(std::move(values)) {}  // NOLINT
  FilterArgument(std::initializer_list<AttributeValue> values) : values_(values) {}
  FilterArgument(IdColumn ids) : ids_(std::move(ids)) {}  // NOLINT

  // Returns the argument that a FilterArgument message has, such as those of audit records. Errors:
  // InvalidArgument (not such a message).
  static absl::StatusOr<FilterArgument> Parse(std::string_view message);

  const Values& values() const { return values_; }  // none if it has ids
  const std::optional<IdColumn>& ids() const { return ids_; }

  bool operator==(const FilterArgument& other) const = default;

 private:
  Values values_;
  std::optional<IdColumn> ids_;
};

// A value type. Only the server knows the grammar and the attributes, so only the server refuses a
// filter. The client refuses values of several types in one argument, and text that is not UTF-8.
class Filter {
 public:
  explicit Filter(std::string text, std::vector<FilterArgument> arguments = {})
      : text_(std::move(text)), arguments_(std::move(arguments)) {}

  static Filter And(const std::vector<Filter>& filters);  // all of them hold; requires at least one
  static Filter Or(const std::vector<Filter>& filters);  // one of them holds; requires at least one
  static Filter Not(const Filter& filter);               // also true for rows without the attribute

  // False for a row without the attribute, including NotEqual. Bools have no order.
  static Filter Equal(std::string_view attribute, AttributeValue value);
  static Filter NotEqual(std::string_view attribute, AttributeValue value);
  static Filter Less(std::string_view attribute, AttributeValue value);
  static Filter LessEqual(std::string_view attribute, AttributeValue value);
  static Filter Greater(std::string_view attribute, AttributeValue value);
  static Filter GreaterEqual(std::string_view attribute, AttributeValue value);
  // The attribute has one of the values; the list holds one of them, or all of them. Without
  // values, the first two pass no row, and the last one those that Exists passes.
  static Filter In(std::string_view attribute, std::vector<AttributeValue> values);
  static Filter ListAny(std::string_view attribute, std::vector<AttributeValue> values);
  static Filter ListAll(std::string_view attribute, std::vector<AttributeValue> values);
  // The row has a value; an empty list is a value.
  static Filter Exists(std::string_view attribute);
  // The row's id is one of these.
  static Filter HasId(IdColumn ids);

  const std::string& text() const { return text_; }
  const std::vector<FilterArgument>& arguments() const { return arguments_; }

  bool operator==(const Filter& other) const = default;

 private:
  static Filter Joined(const std::vector<Filter>& filters, std::string_view word);

  std::string text_;
  std::vector<FilterArgument> arguments_;
};

}  // namespace nearfield::client

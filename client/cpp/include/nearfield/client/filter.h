// Filter: a condition on rows, on their attributes and on their ids.
//
//   const Filter filter = Filter::And({Filter::Equal("language", "de"),
//                                      Filter::Less("year", 2020),
//                                      Filter::Not(Filter::ListAny("tags", {"draft", "old"}))});
//
// proto/nearfield/v1/common.proto, at Filter, defines which rows pass, and the limits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// The root is the first level.
inline constexpr size_t kFilterLevelsMax = 8;

// A value type: copies are deep. Only the server knows the attributes, so only the server refuses a
// wrong name or type. The client refuses values of several types in one condition, text that is not
// UTF-8, and more levels than kFilterLevelsMax.
class Filter {
 public:
  enum class Kind : uint8_t {
    kAnd,
    kOr,
    kNot,
    kEqual,
    kNotEqual,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kIn,
    kListAny,
    kListAll,
    kExists,
    kHasId,
  };

  static Filter And(std::vector<Filter> filters);  // all of them hold; requires at least one
  static Filter Or(std::vector<Filter> filters);   // one of them holds; requires at least one
  static Filter Not(Filter filter);  // plain negation: also true for rows without the attribute

  // False for a row without the attribute, including NotEqual. Bools have no order.
  static Filter Equal(std::string attribute, AttributeValue value);
  static Filter NotEqual(std::string attribute, AttributeValue value);
  static Filter Less(std::string attribute, AttributeValue value);
  static Filter LessEqual(std::string attribute, AttributeValue value);
  static Filter Greater(std::string attribute, AttributeValue value);
  static Filter GreaterEqual(std::string attribute, AttributeValue value);
  // The attribute has one of the values; the list holds one of them, or all of them. At least one
  // value is required.
  static Filter In(std::string attribute, std::vector<AttributeValue> values);
  static Filter ListAny(std::string attribute, std::vector<AttributeValue> values);
  static Filter ListAll(std::string attribute, std::vector<AttributeValue> values);
  // The row has a value; an empty list is a value.
  static Filter Exists(std::string attribute);
  // The row's id is one of these. At least one id is required.
  static Filter HasId(IdColumn ids);

  Kind kind() const { return kind_; }
  // Operands of kAnd and kOr; kNot has exactly one.
  const std::vector<Filter>& operands() const { return operands_; }
  const std::string& attribute() const { return attribute_; }
  // Values of the condition; a comparison has exactly one.
  const std::vector<AttributeValue>& values() const { return values_; }
  const IdColumn& ids() const { return ids_; }

  bool operator==(const Filter& other) const;

 private:
  explicit Filter(Kind kind) : kind_(kind) {}
  static Filter OfValues(Kind kind, std::string attribute, std::vector<AttributeValue> values);

  Kind kind_;
  std::vector<Filter> operands_;
  std::string attribute_;
  std::vector<AttributeValue> values_;
  IdColumn ids_;
};

}  // namespace nearfield::client

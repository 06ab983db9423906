// Attributes: typed values that a row may have in addition to its vector, id and payload. A
// collection declares them, and filters refer to them.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::client {

enum class AttributeType : uint8_t {
  kUnknown = 0,  // sent by a newer server
  kInt64 = 1,
  kDouble = 2,  // no NaN
  kBool = 3,
  kKeyword = 4,    // 0 .. 1024 bytes of UTF-8, compared bytewise and as a whole
  kTimestamp = 5,  // UTC, to the microsecond
};

// "int64", "double", "bool", "keyword", "timestamp".
std::string_view Name(AttributeType type);
std::string WithArticle(AttributeType type);  // "an int64", "a keyword"
std::optional<AttributeType> ParseAttributeType(std::string_view name);

// An attribute that a collection declares: when it is created, or later (Client::AddAttribute).
struct AttributeSpec {
  std::string name;  // [a-z][a-z0-9_]{0,62}
  AttributeType type = AttributeType::kUnknown;
  bool is_list = false;  // a row has a list of values
  // The server deletes a row after this time, in the background. Only one attribute of a collection
  // can have it, a timestamp that is not a list.
  bool expires = false;

  bool operator==(const AttributeSpec& other) const = default;
};

// The text form: "year:int64", "tags:keyword[]", "until:timestamp:expires".
std::string ToString(const AttributeSpec& spec);
// Errors: InvalidArgument if the text does not have that form. Only the server checks the name,
// and which attribute can expire.
absl::StatusOr<AttributeSpec> ParseAttributeSpec(std::string_view text);

using Timestamp = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// An integer type whose values all fit into int64_t.
template <typename T>
concept AttributeInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                           (std::signed_integral<T> || sizeof(T) < sizeof(int64_t));

// One value. The C++ type determines the attribute's type. Nothing is converted, so compare a
// double attribute with 2.0, not with 2.
class AttributeValue {
 public:
  // In the order of AttributeType.
  using Variant = std::variant<int64_t, double, bool, std::string, Timestamp>;

  template <AttributeInteger T>
  AttributeValue(T value) : value_(static_cast<int64_t>(value)) {}  // NOLINT: implicit on purpose
  template <std::floating_point T>
  AttributeValue(T value) : value_(static_cast<double>(value)) {}  // NOLINT
  template <std::same_as<bool> T>
  AttributeValue(T value) : value_(value) {}  // NOLINT: a pointer must not convert
  AttributeValue(std::string value) : value_(std::move(value)) {}         // NOLINT
  AttributeValue(std::string_view value) : value_(std::string(value)) {}  // NOLINT
  AttributeValue(const char* value) : value_(std::string(value)) {}       // NOLINT
  // Finer times are rounded down to the microsecond.
  template <typename Duration>
  AttributeValue(std::chrono::time_point<std::chrono::system_clock, Duration> value)  // NOLINT
      : value_(std::chrono::floor<std::chrono::microseconds>(value)) {}

  AttributeType type() const { return static_cast<AttributeType>(value_.index() + 1); }
  const Variant& variant() const { return value_; }

  bool operator==(const AttributeValue& other) const = default;

 private:
  Variant value_;
};

// Values of one type, in the order of AttributeType.
using AttributeValues = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                                     std::vector<std::string>, std::vector<Timestamp>>;

AttributeType TypeOf(const AttributeValues& values);
AttributeValues EmptyValues(AttributeType type);  // requires a known type
size_t Count(const AttributeValues& values);

// The values of one attribute for the rows of a block. A row need not have one.
struct AttributeColumn {
  std::string attribute;
  // The values of the rows that have one, in row order. For a list attribute, the values of all
  // lists, one list after the other.
  AttributeValues values;
  // For each row, true if it has a value. Empty: every row has one.
  std::vector<bool> presence;
  // List attributes only: for each row that has a value, the number of values in its list. An empty
  // list is not a missing one.
  std::vector<uint32_t> list_sizes;
};

// Builds a column row by row.
class AttributeColumnBuilder {
 public:
  // Requires a known type.
  explicit AttributeColumnBuilder(AttributeSpec spec);

  // Adds the next row's value. Errors: InvalidArgument (the value is not of the attribute's type,
  // or the attribute is a list); then nothing is added.
  absl::Status Add(const AttributeValue& value);
  // Adds the next row's list, for a list attribute. Errors as Add.
  absl::Status AddList(const std::vector<AttributeValue>& values);
  void AddMissing();  // the next row has no value

  const AttributeSpec& spec() const { return spec_; }
  size_t rows_count() const { return column_.presence.size(); }
  size_t rows_with_value() const { return rows_with_value_; }

  // Returns the column and begins a new one.
  AttributeColumn Take();

 private:
  absl::Status CheckValue(const AttributeValue& value) const;

  AttributeSpec spec_;
  AttributeColumn column_;
  size_t rows_with_value_ = 0;
};

}  // namespace nearfield::client

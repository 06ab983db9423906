// What a row may have beside its vector, its id and its payload: values of attributes that the
// collection declares, and that filters ask for.
#ifndef NEARFIELD_CLIENT_ATTRIBUTES_H_
#define NEARFIELD_CLIENT_ATTRIBUTES_H_

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
  kUnknown = 0,  // of a newer server
  kInt64 = 1,
  kDouble = 2,  // no NaN
  kBool = 3,
  kKeyword = 4,    // 0 .. 1024 bytes of UTF-8, compared bytewise and as a whole
  kTimestamp = 5,  // UTC, to the microsecond
};

// "int64", "double", "bool", "keyword", "timestamp".
std::string_view Name(AttributeType type);
std::optional<AttributeType> ParseAttributeType(std::string_view name);

// An attribute that a collection declares; fixed when the collection is created.
struct AttributeSpec {
  std::string name;  // [a-z][a-z0-9_]{0,62}
  AttributeType type = AttributeType::kUnknown;
  bool is_list = false;  // a row has a list of values

  bool operator==(const AttributeSpec& other) const = default;
};

// "year:int64", "tags:keyword[]".
std::string ToString(const AttributeSpec& spec);
// Errors: InvalidArgument where it is not of that form; the name is the server's to judge.
absl::StatusOr<AttributeSpec> ParseAttributeSpec(std::string_view text);

using Timestamp = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

// A whole number that every int64_t can hold.
template <typename T>
concept AttributeInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                           (std::signed_integral<T> || sizeof(T) < sizeof(int64_t));

// One value. The C++ type chooses the attribute's type: nothing is converted, so a double attribute
// is compared with 2.0, not with 2.
class AttributeValue {
 public:
  // In the order of AttributeType.
  using Variant = std::variant<int64_t, double, bool, std::string, Timestamp>;

  template <AttributeInteger T>
  AttributeValue(T value) : value_(static_cast<int64_t>(value)) {}  // NOLINT: implicit on purpose
  template <std::floating_point T>
  AttributeValue(T value) : value_(static_cast<double>(value)) {}  // NOLINT
  template <std::same_as<bool> T>
  AttributeValue(T value) : value_(value) {}                       // NOLINT: no pointer is a bool
  AttributeValue(std::string value) : value_(std::move(value)) {}  // NOLINT
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
  // Of the rows that have a value, in their order; of a list attribute the values of all lists, one
  // list after the other.
  AttributeValues values;
  // Which rows have a value, one a row. Empty: every row has one.
  std::vector<bool> presence;
  // List attributes, one a row that has a value: how many values its list has. An empty list is no
  // missing one.
  std::vector<uint32_t> list_sizes;
};

// Makes a column row by row.
class AttributeColumnBuilder {
 public:
  // Requires a known type.
  explicit AttributeColumnBuilder(AttributeSpec spec);

  // The next row's value. Errors: InvalidArgument where it is not of the attribute's type, or the
  // attribute is a list; then the row has been given none.
  absl::Status Add(const AttributeValue& value);
  // The same for the attribute that is a list.
  absl::Status AddList(const std::vector<AttributeValue>& values);
  void AddMissing();  // the next row has none

  const AttributeSpec& spec() const { return spec_; }
  size_t rows_count() const { return column_.presence.size(); }
  size_t rows_with_value() const { return rows_with_value_; }

  // The column, and begins a new one.
  AttributeColumn Take();

 private:
  absl::Status CheckValue(const AttributeValue& value) const;

  AttributeSpec spec_;
  AttributeColumn column_;
  size_t rows_with_value_ = 0;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_ATTRIBUTES_H_

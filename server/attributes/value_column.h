// ValueColumn: values of one attribute type in compact form, and their order.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "nearfield/engine/bytes_column.h"
#include "server/attributes/schema.h"

namespace nearfield::server {

// Numbers are stored in 64 bits: an int64 or timestamp as its value, a double as its bits, a bool
// as 0 or 1.
class ValueColumn {
 public:
  ValueColumn() = default;  // type kInt64
  explicit ValueColumn(AttributeType type) : type_(type) {}

  AttributeType type() const { return type_; }
  bool is_keyword() const { return type_ == AttributeType::kKeyword; }
  int64_t size() const {
    return is_keyword() ? keywords_.size() : static_cast<int64_t>(numbers_.size());
  }
  // Returns the bytes of host memory that the column holds.
  int64_t bytes() const {
    return static_cast<int64_t>(numbers_.capacity() * sizeof(int64_t)) + keywords_.bytes();
  }

  // Each requires the type that it names.
  void AppendInteger(int64_t value) { numbers_.push_back(value); }  // kInt64, kTimestamp
  void AppendDouble(double value) { numbers_.push_back(std::bit_cast<int64_t>(value)); }
  void AppendBool(bool value) { numbers_.push_back(value ? 1 : 0); }
  void AppendKeyword(std::string_view value) { keywords_.Append(value); }
  // Requires: the same type; 0 <= index < other.size().
  void AppendFrom(const ValueColumn& other, int64_t index) {
    if (is_keyword()) {
      keywords_.Append(other.keyword(index));
    } else {
      numbers_.push_back(other.bits(index));
    }
  }

  // Each requires the type that it names, and 0 <= index < size(). bits: any type except kKeyword.
  int64_t bits(int64_t index) const { return numbers_[static_cast<size_t>(index)]; }
  double number(int64_t index) const { return std::bit_cast<double>(bits(index)); }  // kDouble
  std::string_view keyword(int64_t index) const { return keywords_.at(index); }

  // Requires: not kKeyword.
  bool is_negative_zero(int64_t index) const {
    return type_ == AttributeType::kDouble && bits(index) == std::bit_cast<int64_t>(-0.0);
  }

  // Returns an integer that orders as the value does. Equal values have equal keys: -0 and +0 have
  // the same key. Requires: not kKeyword.
  int64_t key(int64_t index) const {
    return type_ == AttributeType::kDouble ? KeyOf(number(index)) : bits(index);
  }

  // Returns the number with this key of an attribute of this type, rounded to nearest: the value, a
  // time in microseconds, 0 or 1; +0 for the key of the zeros. Requires: not kKeyword.
  static double NumberOf(AttributeType type, int64_t key) {
    return type == AttributeType::kDouble ? std::bit_cast<double>(BitsOf(key))
                                          : static_cast<double>(key);
  }

  // Appends the value with this key: +0 for the key of the zeros. Requires: not kKeyword.
  void AppendKey(int64_t key) {
    numbers_.push_back(type_ == AttributeType::kDouble ? BitsOf(key) : key);
  }

  // Sorts the values and removes duplicates.
  void SortDistinct();

 private:
  // Turns a number that is ordered by its bits into one that is ordered by its value, and back.
  static int64_t BitsOf(int64_t key) {
    return key < 0 ? key ^ std::numeric_limits<int64_t>::max() : key;
  }
  static int64_t KeyOf(double value) {
    return BitsOf(std::bit_cast<int64_t>(value + 0.0));  // -0 becomes +0
  }

  AttributeType type_ = AttributeType::kInt64;
  std::vector<int64_t> numbers_;
  BytesColumn keywords_;
};

}  // namespace nearfield::server

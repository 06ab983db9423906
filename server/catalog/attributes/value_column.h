// Values of one attribute type, compactly held; and the order they are compared in.
#ifndef NEARFIELD_SERVER_CATALOG_ATTRIBUTES_VALUE_COLUMN_H_
#define NEARFIELD_SERVER_CATALOG_ATTRIBUTES_VALUE_COLUMN_H_

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "nearfield/engine/bytes_column.h"
#include "server/catalog/attributes/schema.h"

namespace nearfield::server {

// Numbers are kept as 64 bits: an int64 or a timestamp as it is, a double's bits, a bool as 0 or 1.
class ValueColumn {
 public:
  ValueColumn() = default;  // kInt64
  explicit ValueColumn(AttributeType type) : type_(type) {}

  AttributeType type() const { return type_; }
  bool is_keyword() const { return type_ == AttributeType::kKeyword; }
  int64_t size() const {
    return is_keyword() ? keywords_.size() : static_cast<int64_t>(numbers_.size());
  }
  // Bytes of host memory the column holds on to.
  int64_t bytes() const {
    return static_cast<int64_t>(numbers_.capacity() * sizeof(int64_t)) + keywords_.bytes();
  }

  // Each requires the type it names.
  void AppendInteger(int64_t value) { numbers_.push_back(value); }  // kInt64, kTimestamp
  void AppendDouble(double value) { numbers_.push_back(std::bit_cast<int64_t>(value)); }
  void AppendBool(bool value) { numbers_.push_back(value ? 1 : 0); }
  void AppendKeyword(std::string_view value) { keywords_.Append(value); }
  // Requires the same type, and 0 <= index < other.size().
  void AppendFrom(const ValueColumn& other, int64_t index) {
    if (is_keyword()) {
      keywords_.Append(other.keyword(index));
    } else {
      numbers_.push_back(other.bits(index));
    }
  }

  // Each requires the type it names, and 0 <= index < size().
  int64_t bits(int64_t index) const { return numbers_[static_cast<size_t>(index)]; }  // not keyword
  double number(int64_t index) const { return std::bit_cast<double>(bits(index)); }   // kDouble
  std::string_view keyword(int64_t index) const { return keywords_.at(index); }

  // Integers that order as the values do, equal where the values are: -0 and +0 have one key.
  // Requires a type other than kKeyword.
  int64_t key(int64_t index) const {
    return type_ == AttributeType::kDouble ? KeyOf(number(index)) : bits(index);
  }

  // Orders the values and drops those that are equal to another.
  void SortDistinct();

 private:
  static int64_t KeyOf(double value) {
    const auto bits = std::bit_cast<int64_t>(value + 0.0);  // -0 becomes +0
    return bits < 0 ? bits ^ std::numeric_limits<int64_t>::max() : bits;
  }

  AttributeType type_ = AttributeType::kInt64;
  std::vector<int64_t> numbers_;
  BytesColumn keywords_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_ATTRIBUTES_VALUE_COLUMN_H_

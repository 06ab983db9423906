// IdColumn: a compact column of ids, either all numbers or all strings. It owns them; or it refers
// to numbers that a device has written, and keeps their memory alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "nearfield/engine/types.h"

namespace nearfield {

class IdColumn {
 public:
  explicit IdColumn(IdType type = IdType::kUint64) : type_(type) {}
  static IdColumn OfNumbers(std::vector<uint64_t> numbers);

  IdType type() const { return type_; }
  int64_t size() const;
  bool empty() const { return size() == 0; }
  // Returns the bytes of host memory that the column occupies.
  int64_t bytes() const;

  // Refers to `numbers`, which `owner` keeps alive, in place of its own. Requires: type() ==
  // kUint64.
  void Lend(absl::Span<const uint64_t> numbers, std::shared_ptr<const void> owner) {
    numbers_.clear();
    lent_ = numbers;
    owner_ = std::move(owner);
  }
  // Copies the numbers if they are lent, so that the column keeps no other memory alive.
  void Own() {
    if (owner_ == nullptr) return;
    numbers_.assign(lent_.begin(), lent_.end());
    owner_.reset();
  }
  void Reserve(int64_t rows_count);
  void AppendNumber(uint64_t id) {  // requires: type() == kUint64
    Own();
    numbers_.push_back(id);
  }
  void AppendString(std::string_view id);                 // requires: type() == kString
  void Append(const Id& id);                              // requires: an id of type()
  void AppendFrom(const IdColumn& other, int64_t index);  // requires: the same type

  // Requires: 0 <= index < size() and the matching type.
  uint64_t number(int64_t index) const { return numbers()[static_cast<size_t>(index)]; }
  // Returns all ids; nothing if they are strings.
  absl::Span<const uint64_t> numbers() const { return owner_ != nullptr ? lent_ : numbers_; }
  std::string_view string(int64_t index) const;
  Id at(int64_t index) const;

  // Prefetches the data that at(index) reads. For loops over many positions in no order.
  void Prefetch(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    __builtin_prefetch(type_ == IdType::kUint64 ? static_cast<const void*>(numbers().data() + i)
                                                : string_ends_.data() + i);
  }

  // Compares ids: numbers as unsigned integers, strings bytewise. Negative, 0 or positive, if
  // (*this)[index] is less, equal or greater.
  int Compare(int64_t index, const IdColumn& other, int64_t other_index) const;

 private:
  IdType type_;
  std::vector<uint64_t> numbers_;     // kUint64: the ids, unless they are lent
  std::vector<int64_t> string_ends_;  // kString: end of each id in string_bytes_
  std::vector<char> string_bytes_;
  absl::Span<const uint64_t> lent_;
  std::shared_ptr<const void> owner_;  // of lent_; null: no ids are lent
};

}  // namespace nearfield

#include "nearfield/engine/id_column.h"

#include <cassert>
#include <cstddef>
#include <string>
#include <utility>
#include <variant>

namespace nearfield {

IdColumn IdColumn::OfNumbers(std::vector<uint64_t> numbers) {
  IdColumn column(IdType::kUint64);
  column.numbers_ = std::move(numbers);
  return column;
}

int64_t IdColumn::size() const {
  return static_cast<int64_t>(type_ == IdType::kUint64 ? numbers().size() : string_ends_.size());
}

int64_t IdColumn::bytes() const {
  const size_t numbers_count = owner_ != nullptr ? lent_.size() : numbers_.capacity();
  return static_cast<int64_t>(numbers_count * sizeof(uint64_t) +
                              string_ends_.capacity() * sizeof(int64_t) + string_bytes_.capacity());
}

void IdColumn::Reserve(int64_t rows_count) {
  if (type_ == IdType::kUint64) {
    numbers_.reserve(static_cast<size_t>(rows_count));
  } else {
    string_ends_.reserve(static_cast<size_t>(rows_count));
  }
}

void IdColumn::AppendString(std::string_view id) {
  assert(type_ == IdType::kString);
  string_bytes_.insert(string_bytes_.end(), id.begin(), id.end());
  string_ends_.push_back(static_cast<int64_t>(string_bytes_.size()));
}

void IdColumn::Append(const Id& id) {
  if (type_ == IdType::kUint64) {
    AppendNumber(*std::get_if<uint64_t>(&id));
  } else {
    AppendString(*std::get_if<std::string>(&id));
  }
}

void IdColumn::AppendFrom(const IdColumn& other, int64_t index) {
  if (type_ == IdType::kUint64) {
    AppendNumber(other.number(index));
  } else if (&other != this) {
    AppendString(other.string(index));
  } else {  // `other` may be this column, whose bytes may move during the append
    AppendString(std::string(other.string(index)));
  }
}

std::string_view IdColumn::string(int64_t index) const {
  const auto i = static_cast<size_t>(index);
  const int64_t begin = i == 0 ? 0 : string_ends_[i - 1];
  return {string_bytes_.data() + begin, static_cast<size_t>(string_ends_[i] - begin)};
}

Id IdColumn::at(int64_t index) const {
  if (type_ == IdType::kUint64) return number(index);
  return std::string(string(index));
}

int IdColumn::Compare(int64_t index, const IdColumn& other, int64_t other_index) const {
  if (type_ == IdType::kUint64) {
    const uint64_t a = number(index);
    const uint64_t b = other.number(other_index);
    return a < b ? -1 : (a > b ? 1 : 0);
  }
  return string(index).compare(other.string(other_index));
}

}  // namespace nearfield

// BytesColumn: a compact column of opaque byte strings (payloads).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace nearfield {

class BytesColumn {
 public:
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  // Returns the bytes of the values themselves.
  int64_t value_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  // Returns the bytes of host memory that the column occupies.
  int64_t bytes() const {
    return static_cast<int64_t>(ends_.capacity() * sizeof(int64_t) + bytes_.capacity());
  }
  void Reserve(int64_t rows_count, int64_t value_bytes_count) {
    ends_.reserve(static_cast<size_t>(rows_count));
    bytes_.reserve(static_cast<size_t>(value_bytes_count));
  }
  void Append(std::string_view value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
    ends_.push_back(static_cast<int64_t>(bytes_.size()));
  }
  // Requires: 0 <= index < size().
  std::string_view at(int64_t index) const {
    const auto i = static_cast<size_t>(index);
    const int64_t begin = i == 0 ? 0 : ends_[i - 1];
    return {bytes_.data() + begin, static_cast<size_t>(ends_[i] - begin)};
  }

 private:
  std::vector<int64_t> ends_;  // end of each value in bytes_
  std::vector<char> bytes_;
};

}  // namespace nearfield

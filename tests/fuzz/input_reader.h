// InputReader: takes numbers and bytes off a fuzzer's input, and edits bytes as the input says.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nearfield::fuzz {

class InputReader {
 public:
  explicit InputReader(std::string_view bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }

  // Returns a number of `bytes` bytes; zero bytes follow the end of the input.
  uint64_t Take(size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i) {
      value <<= 8;
      if (left_.empty()) continue;
      value |= static_cast<uint8_t>(left_.front());
      left_.remove_prefix(1);
    }
    return value;
  }
  // Returns a number in [0, end). Requires: end <= 2^16.
  int64_t Below(int64_t end) { return static_cast<int64_t>(Take(2)) % end; }
  // Returns 0 .. size_max bytes.
  std::string_view TakeBytes(size_t size_max) {
    const size_t wanted = Take(1) % (size_max + 1);
    const size_t size = std::min(wanted, left_.size());
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  std::string_view TakeRest() {
    const std::string_view rest = left_;
    left_ = {};
    return rest;
  }

  // Makes up to seven changes of the kinds that break readers of files.
  void Edit(std::string* bytes) {
    for (uint64_t edits = Take(1) % 8; edits > 0 && !bytes->empty(); --edits) {
      const size_t at = Take(3) % bytes->size();
      switch (Take(1) % 6) {
        case 0: (*bytes)[at] = static_cast<char>(Take(1)); break;
        case 1: PutNumber(Take(1) % 2 == 0 ? Take(1) : Take(8), at, bytes); break;
        case 2: PutNumber(uint64_t{0} - Take(1), at, bytes); break;
        case 3: bytes->resize(at); break;
        case 4: bytes->insert(at, TakeBytes(64)); break;
        default: bytes->replace(at, 16, bytes->substr(Take(3) % bytes->size(), 16));
      }
    }
  }

 private:
  // Writes the number as files of this project hold it: 8 bytes, the lowest first.
  static void PutNumber(uint64_t number, size_t at, std::string* bytes) {
    for (size_t i = at; i < std::min(at + 8, bytes->size()); ++i, number >>= 8) {
      (*bytes)[i] = static_cast<char>(number);
    }
  }

  std::string_view left_;
};

}  // namespace nearfield::fuzz

// An output buffer between guard bytes, which detects a write before its begin or past its end.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace nearfield::testing {

// The elements also start as poison, so that an element that was never written has a wrong value.
template <typename T>
class RedZone {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  explicit RedZone(size_t size)
      : size_(size), bytes_(kGuardBytes + size * sizeof(T) + kGuardBytes, kPoison) {}

  // Returns a pointer that is aligned to 16 bytes.
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuardBytes); }
  size_t size() const { return size_; }
  T& operator[](size_t index) { return data()[index]; }

  // Succeeds if no guard byte has changed; otherwise the message states which one has.
  ::testing::AssertionResult Intact() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (bytes_[kGuardBytes - 1 - i] != kPoison) {
        return ::testing::AssertionFailure() << "written " << i + 1 << " bytes before the buffer";
      }
      if (bytes_[bytes_.size() - kGuardBytes + i] != kPoison) {
        return ::testing::AssertionFailure()
               << "written " << i << " bytes past the end of the buffer";
      }
    }
    return ::testing::AssertionSuccess();
  }

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kPoison = 0xa5;

  size_t size_;
  std::vector<uint8_t> bytes_;
};

}  // namespace nearfield::testing

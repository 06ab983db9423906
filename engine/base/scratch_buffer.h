// ScratchBuffer: uninitialized memory that is reused and never shrinks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace nearfield {

// Uninitialized elements, aligned to a cache line.
template <typename T>
class ScratchBuffer {
 public:
  // Makes room for at least `count` elements. Loses the contents if the buffer grows.
  T* Ensure(int64_t count) {
    if (count > count_) {
      data_.reset();
      data_.reset(static_cast<T*>(
          ::operator new (static_cast<size_t>(count) * sizeof(T), std::align_val_t{kAlignment})));
      count_ = count;
    }
    return data_.get();
  }
  T* get() const { return data_.get(); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t count_ = 0;
};

}  // namespace nearfield

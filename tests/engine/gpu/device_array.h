// DeviceArray: device memory for tests; the engine's own memory comes from its arena.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearfield::gpu {

// Filled with zeros at construction.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t size) : size_(size) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, Bytes()), cudaSuccess);
    data_ = static_cast<T*>(data);
    EXPECT_EQ(cudaMemset(data_, 0, Bytes()), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void Set(const std::vector<T>& values) {
    ASSERT_LE(static_cast<int64_t>(values.size()), size_);
    ASSERT_EQ(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  std::vector<T> Get() const {
    std::vector<T> values(static_cast<size_t>(size_));
    EXPECT_EQ(cudaMemcpy(values.data(), data_, Bytes(), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }
  T* data() const { return data_; }

 private:
  size_t Bytes() const { return static_cast<size_t>(size_) * sizeof(T); }

  const int64_t size_;
  T* data_ = nullptr;
};

}  // namespace nearfield::gpu

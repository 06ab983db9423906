// Mapping: host memory of the CPU backend. It takes physical memory only when its pages are
// touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

namespace nearfield::cpu {

// Zeroed, page-aligned memory from the system. Large mappings use huge pages if the system grants
// them.
class Mapping {
 public:
  // Requires: bytes >= 0. Errors: ResourceExhausted (the system refuses the address space).
  static absl::StatusOr<Mapping> Create(int64_t bytes);
  ~Mapping();
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&&) = delete;

  std::byte* data() const { return data_; }
  // Returns all whole pages past the first `bytes` to the system.
  void Shrink(int64_t bytes);

 private:
  Mapping(std::byte* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  int64_t bytes_;  // a multiple of the page size
};

}  // namespace nearfield::cpu

// Host memory of the CPU backend: MemoryBudget counts bytes; a Mapping takes physical memory only
// when its pages are touched.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::cpu {

// A limit on bytes. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(int64_t bytes_total) : bytes_total_(bytes_total) {}
  int64_t bytes_total() const { return bytes_total_; }
  int64_t bytes_used() const { return bytes_used_.load(std::memory_order_relaxed); }

  // Errors: ResourceExhausted (needed and free bytes); nothing is taken then.
  absl::Status Take(int64_t bytes);
  void Release(int64_t bytes);

 private:
  const int64_t bytes_total_;
  std::atomic<int64_t> bytes_used_{0};
};

// Bytes taken from a budget. The destructor releases them.
class BudgetShare {
 public:
  static absl::StatusOr<BudgetShare> Take(std::shared_ptr<MemoryBudget> budget, int64_t bytes);
  ~BudgetShare();
  BudgetShare(BudgetShare&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetShare& operator=(BudgetShare&&) = delete;

  int64_t bytes() const { return bytes_; }
  // Releases all but `bytes`. Requires: bytes <= bytes().
  void Shrink(int64_t bytes);

 private:
  BudgetShare(std::shared_ptr<MemoryBudget> budget, int64_t bytes)
      : budget_(std::move(budget)), bytes_(bytes) {}

  std::shared_ptr<MemoryBudget> budget_;
  int64_t bytes_;
};

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

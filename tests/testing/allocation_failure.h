// Makes one chosen call of operator new fail. A program that links nearfield_allocation_failure
// gets another operator new and delete.
#pragma once

#include <cstdint>

namespace nearfield::testing {

// While an instance lives, the n-th allocation (1: the next one) throws std::bad_alloc; all others
// succeed. At most one instance may exist.
class AllocationFailure {
 public:
  enum class Threads : uint8_t { kThis, kAll };

  explicit AllocationFailure(int64_t n, Threads threads = Threads::kThis);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;

  // Returns true if the n-th allocation was reached. If false, the tested code makes fewer than n.
  bool happened() const;
};

}  // namespace nearfield::testing

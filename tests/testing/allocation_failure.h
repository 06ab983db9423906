// Makes operator new fail, once and where the test says. A program that links
// nearfield_allocation_failure has its operator new and delete replaced.
#ifndef NEARFIELD_TESTS_TESTING_ALLOCATION_FAILURE_H_
#define NEARFIELD_TESTS_TESTING_ALLOCATION_FAILURE_H_

#include <cstdint>

namespace nearfield::testing {

// While it lives, the n-th allocation (1: the next one) throws std::bad_alloc; those before and
// after it succeed. One at a time.
class AllocationFailure {
 public:
  enum class Threads : uint8_t { kThis, kAll };

  explicit AllocationFailure(int64_t n, Threads threads = Threads::kThis);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;

  // Reports whether the n-th allocation came. False: the work under test needs fewer than n.
  bool happened() const;
};

}  // namespace nearfield::testing

#endif  // NEARFIELD_TESTS_TESTING_ALLOCATION_FAILURE_H_

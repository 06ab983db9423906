// Makes one allocation of the process fail: malloc and its family return null with ENOMEM, operator
// new throws std::bad_alloc.
//
// The preloaded library counts the allocations of all threads. It takes precedence over any
// allocator that the program links and forwards to that one: with jemalloc linked, to jemalloc.
#pragma once

#include <dlfcn.h>

#include <cstdint>

namespace nearfield::fault {

// Returns the number of allocations counted since the process began. Only the library may call it.
int64_t CountedAllocations();

// While an instance lives, this thread's allocations belong to the library and are not counted.
// Only the library may use it.
class OwnAllocations {
 public:
  OwnAllocations();
  ~OwnAllocations();
  OwnAllocations(const OwnAllocations&) = delete;
  OwnAllocations& operator=(const OwnAllocations&) = delete;
};

// Counts allocations while an instance lives, in a process with NEARFIELD_FAULT_ALLOCATIONS=marked.
// kPause inside kCount suspends the count. Has no effect if the library is not loaded.
class CountAllocations {
 public:
  enum class Mode : int8_t { kCount = 1, kPause = -1 };

  explicit CountAllocations(Mode mode = Mode::kCount) : by_(static_cast<int>(mode)) { Mark(by_); }
  ~CountAllocations() { Mark(-by_); }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

 private:
  static void Mark(int by) {
    using Function = void (*)(int);
    static const auto mark =
        reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, "nearfield_fault_mark_allocations"));
    if (mark != nullptr) mark(by);
  }

  const int by_;
};

}  // namespace nearfield::fault

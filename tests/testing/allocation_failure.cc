#include "tests/testing/allocation_failure.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

// Number of the allocation that fails, counted down; 0 or less: none fails.
thread_local int64_t left_here = 0;
std::atomic<int64_t> left_anywhere{0};
std::atomic<bool> failed{false};

bool Fails() {
  bool fails = left_here > 0 && --left_here == 0;
  if (left_anywhere.load() > 0) fails = left_anywhere.fetch_sub(1) == 1 || fails;
  if (fails) failed.store(true);
  return fails;
}

void* Allocate(size_t bytes, size_t alignment) {
  void* memory = nullptr;
  if (!Fails()) {
    memory = alignment <= alignof(std::max_align_t)
                 ? std::malloc(bytes > 0 ? bytes : 1)
                 : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The other forms of operator new call these, except a sanitizer's own nothrow form.
void* operator new(size_t bytes) { return Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return Allocate(bytes, 1);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

namespace nearfield::testing {

AllocationFailure::AllocationFailure(int64_t n, Threads threads) {
  failed.store(false);
  if (threads == Threads::kThis) {
    left_here = n;
  } else {
    left_anywhere.store(n);
  }
}

AllocationFailure::~AllocationFailure() {
  left_here = 0;
  left_anywhere.store(0);
}

bool AllocationFailure::happened() const { return failed.load(); }

}  // namespace nearfield::testing

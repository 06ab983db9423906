#include "tests/fault/allocation_fault.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

// No code in this file may allocate before it forwards an allocation: that would recurse without
// end.
namespace nearfield::fault {
namespace {

// Zero-initialized, so it can be used before any constructor of the program runs.
struct Allocations {
  std::atomic<bool> read{false};  // the environment has been read
  std::atomic<int64_t> at{0};     // number of the allocation that fails; 0: none
  std::atomic<int> marks{0};      // allocations are counted while this is positive
  std::atomic<int64_t> counted{0};
};
Allocations allocations;
// Positive while the library itself runs. The TLS model keeps the access from allocating.
__attribute__((tls_model("initial-exec"))) thread_local int own = 0;

void ReadEnvironment() {
  // NOLINTBEGIN(concurrency-mt-unsafe): nothing changes the environment
  const char* const mode = std::getenv("NEARFIELD_FAULT_ALLOCATIONS");
  const char* const kind = std::getenv("NEARFIELD_FAULT_KIND");
  const char* const at = std::getenv("NEARFIELD_FAULT_AT");
  // NOLINTEND(concurrency-mt-unsafe)
  if (allocations.read.exchange(true)) return;
  if (kind != nullptr && at != nullptr && std::strcmp(kind, "enomem") == 0) {
    allocations.at.store(std::strtoll(at, nullptr, 10));
  }
  if (mode == nullptr || std::strcmp(mode, "marked") != 0) allocations.marks.fetch_add(1);
}

// Writes " FILE" for each program or library on the stack, innermost first.
char* WriteModules(char* at, const char* end) {
  std::array<void*, 24> frames = {};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  for (int i = 0; i < count; ++i) {
    Dl_info module = {};
    if (::dladdr(frames[static_cast<size_t>(i)], &module) == 0) continue;
    const char* const slash = std::strrchr(module.dli_fname, '/');
    const char* const name = slash != nullptr ? slash + 1 : module.dli_fname;
    const size_t bytes = std::strlen(name);
    if (static_cast<size_t>(end - at) < bytes + 1) break;
    *at++ = ' ';
    at = std::copy_n(name, bytes, at);
  }
  return at;
}

// Not inlined, so that a debugger can stop where the allocation fails.
[[gnu::noinline]] void LogFailure(int64_t number) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  const char* const log = std::getenv("NEARFIELD_FAULT_LOG");
  if (log == nullptr) return;
  const OwnAllocations own_allocations;
  std::array<char, 1024> line = {"fault enomem allocation "};
  char* end = line.data() + std::strlen(line.data());
  end = std::to_chars(end, line.data() + line.size() - 1, number).ptr;
  end = WriteModules(end, line.data() + line.size() - 1);
  *end++ = '\n';
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  ::syscall(SYS_write, fd, line.data(), end - line.data());
  ::syscall(SYS_close, fd);
}

// Counts one allocation. Returns true, with errno set, if it must fail.
bool Fails() {
  if (!allocations.read.load(std::memory_order_relaxed)) ReadEnvironment();
  if (own > 0 || allocations.marks.load(std::memory_order_relaxed) <= 0) return false;
  const int64_t number = allocations.counted.fetch_add(1) + 1;
  if (number != allocations.at.load(std::memory_order_relaxed)) return false;
  LogFailure(number);
  errno = ENOMEM;
  return true;
}

// Returns the function of this name that the program would call without this library.
template <typename Function>
Function Next(std::atomic<Function>* known, const char* name) {
  Function function = known->load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
    known->store(function, std::memory_order_relaxed);
  }
  return function;
}

using Malloc = void* (*)(size_t);
using Calloc = void* (*)(size_t, size_t);
using Realloc = void* (*)(void*, size_t);
using AlignedAlloc = void* (*)(size_t, size_t);
using PosixMemalign = int (*)(void**, size_t, size_t);
std::atomic<Malloc> next_malloc{nullptr};
std::atomic<Calloc> next_calloc{nullptr};
std::atomic<Realloc> next_realloc{nullptr};
std::atomic<AlignedAlloc> next_aligned_alloc{nullptr};
std::atomic<PosixMemalign> next_posix_memalign{nullptr};

}  // namespace

OwnAllocations::OwnAllocations() { ++own; }
OwnAllocations::~OwnAllocations() { --own; }

int64_t CountedAllocations() { return allocations.counted.load(); }

}  // namespace nearfield::fault

namespace fault = nearfield::fault;

extern "C" {

#define NF_EXPORT __attribute__((visibility("default")))
NF_EXPORT void nearfield_fault_mark_allocations(int by) { fault::allocations.marks.fetch_add(by); }

NF_EXPORT void* malloc(size_t bytes) noexcept {
  if (fault::Fails()) return nullptr;
  return fault::Next(&fault::next_malloc, "malloc")(bytes);
}
NF_EXPORT void* calloc(size_t count, size_t bytes) noexcept {
  if (fault::Fails()) return nullptr;
  return fault::Next(&fault::next_calloc, "calloc")(count, bytes);
}
NF_EXPORT void* realloc(void* memory, size_t bytes) noexcept {
  if (fault::Fails()) return nullptr;
  return fault::Next(&fault::next_realloc, "realloc")(memory, bytes);
}
NF_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (fault::Fails()) return nullptr;
  return fault::Next(&fault::next_aligned_alloc, "aligned_alloc")(alignment, bytes);
}
NF_EXPORT int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (fault::Fails()) return ENOMEM;
  return fault::Next(&fault::next_posix_memalign, "posix_memalign")(memory, alignment, bytes);
}

}  // extern "C"

// jemalloc provides an operator new that does not call malloc, so this file replaces all forms.
// They allocate with malloc, so every operator delete can free their memory.
namespace {

void* NewOrNull(size_t bytes) { return ::malloc(bytes > 0 ? bytes : 1); }

void* AlignedOrNull(size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<size_t>(alignment);
  return ::aligned_alloc(step, (bytes + step - 1) / step * step);
}

void* OrThrow(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return OrThrow(NewOrNull(bytes)); }
void* operator new[](size_t bytes) { return OrThrow(NewOrNull(bytes)); }
void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return NewOrNull(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return NewOrNull(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return OrThrow(AlignedOrNull(bytes, alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return OrThrow(AlignedOrNull(bytes, alignment));
}
// The sized forms of libstdc++ and jemalloc may rely on the allocator's size class. Plain free
// works for every form above.
void operator delete(void* memory) noexcept { ::free(memory); }
void operator delete[](void* memory) noexcept { ::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { ::free(memory); }
void operator delete[](void* memory, size_t /*bytes*/) noexcept { ::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { ::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { ::free(memory); }
void operator delete(void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  ::free(memory);
}
void operator delete[](void* memory, size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  ::free(memory);
}

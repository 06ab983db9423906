#include "engine/cpu/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace nearfield::cpu {
namespace {

constexpr int64_t kPageBytes = 4096;
constexpr int64_t kHugePageBytes = int64_t{2} << 20;
// Smaller mappings use small pages: a huge page would be cleared in full for a few rows.
constexpr int64_t kHugeMappingBytesMin = 2 * kHugePageBytes;

}  // namespace

absl::StatusOr<Mapping> Mapping::Create(int64_t bytes) {
  bytes = RoundUp(bytes, kPageBytes);
  if (bytes == 0) return Mapping(nullptr, 0);
  const bool huge = bytes >= kHugeMappingBytesMin;
  const int64_t slack = huge ? kHugePageBytes : 0;
  void* const raw = mmap(nullptr, static_cast<size_t>(bytes + slack), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("row memory: the system refuses to map ", bytes,
                     " bytes: ", std::system_category().message(errno)));
  }
  auto* begin = static_cast<std::byte*>(raw);
  if (huge) {  // trim to a huge-page boundary
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(raw));
    const int64_t head = RoundUp(address, kHugePageBytes) - address;
    if (head > 0) munmap(begin, static_cast<size_t>(head));
    begin += head;
    if (head < slack) munmap(begin + bytes, static_cast<size_t>(slack - head));
    // Advisory: if the system refuses, small pages are used.
    madvise(begin, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  }
  return Mapping(begin, bytes);
}

Mapping::~Mapping() {
  if (bytes_ > 0) munmap(data_, static_cast<size_t>(bytes_));
}

void Mapping::Shrink(int64_t bytes) {
  bytes = RoundUp(bytes, kPageBytes);
  if (bytes >= bytes_) return;
  munmap(data_ + bytes, static_cast<size_t>(bytes_ - bytes));
  bytes_ = bytes;
}

}  // namespace nearfield::cpu

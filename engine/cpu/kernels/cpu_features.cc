#include "engine/cpu/kernels/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>

namespace nearfield::cpu {
namespace {

#if defined(__x86_64__)
// Returns leaf 7 of CPUID: the extensions. All bits are 0 if the CPU lacks the leaf.
struct Extensions {
  explicit Extensions(unsigned subleaf) { __get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx); }
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
#endif

}  // namespace

bool TilesAreUsable() {
#if defined(__x86_64__)
  constexpr unsigned kTilesAndBytes = 1u << 24 | 1u << 25;  // AMX-TILE, AMX-INT8
  constexpr int64_t kRequestPermission = 0x1023;            // ARCH_REQ_XCOMP_PERM
  constexpr int64_t kTileData = 18;                         // the registers
  static const bool usable = (Extensions(0).edx & kTilesAndBytes) == kTilesAndBytes &&
                             syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return usable;
#else
  return false;
#endif
}

bool HasVexVnni() {
#if defined(__x86_64__)
  return (Extensions(1).eax & 1u << 4) != 0;
#else
  return false;
#endif
}

}  // namespace nearfield::cpu

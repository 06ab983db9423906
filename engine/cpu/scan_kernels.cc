// Compiles the vector kernels once per instruction set and lists those this CPU can run.
#include "engine/cpu/scan_kernels.h"

// Below AVX2 there is no fused multiply-add, which L2 needs: those CPUs take the portable kernels.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#define HWY_COMPILE_ALL_ATTAINABLE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/scan_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "engine/cpu/scan_group-inl.h"
#include "engine/cpu/scan_one-inl.h"
#include "engine/cpu/score_filter-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
const ScanKernels* Kernels() {
  static constexpr ScanKernels kKernels = {.name = HWY_TARGET == HWY_AVX2 ? "AVX2" : "AVX3",
                                           .square_rows = SquareRows,
                                           .scan_one = ScanOne,
                                           .pack_queries = PackQueries,
                                           .scratch_doubles = ScratchDoubles,
                                           .scan_group = ScanGroup,
                                           .filter = Filter};
  return &kKernels;
}
#else
const ScanKernels* Kernels() { return &PortableScanKernels(); }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearfield::cpu {
namespace {

HWY_EXPORT(Kernels);

std::vector<const ScanKernels*> ListKernels() {
  std::vector<const ScanKernels*> list;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {  // the best first
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    const ScanKernels* kernels = HWY_DISPATCH_TABLE(Kernels)[chosen.GetIndex()]();
    if (kernels != &PortableScanKernels()) list.push_back(kernels);
  }
  list.push_back(&PortableScanKernels());
  return list;
}

}  // namespace

const std::vector<const ScanKernels*>& SupportedScanKernels() {
  static const auto* const kList = new std::vector<const ScanKernels*>(ListKernels());
  return *kList;
}

}  // namespace nearfield::cpu
#endif  // HWY_ONCE

// Compiles the vector kernels once per instruction set and lists those this CPU can run.
#include "engine/cpu/kernels/scan_kernels.h"

#include <vector>

#include "engine/cpu/kernels/cpu_features.h"

// Below AVX2 there is no fused multiply-add, which L2 needs; those CPUs use the portable kernels.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#define HWY_COMPILE_ALL_ATTAINABLE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/kernels/scan_kernels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "engine/cpu/kernels/code_filter-inl.h"
#include "engine/cpu/kernels/code_products-inl.h"
#include "engine/cpu/kernels/row_encode-inl.h"
#include "engine/cpu/kernels/scan_group-inl.h"
#include "engine/cpu/kernels/scan_one-inl.h"
#include "engine/cpu/kernels/score_filter-inl.h"
#include "engine/cpu/kernels/tile_products-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace nearfield::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class CodeStep>
ScanKernels KernelsWith(const char* name, double panel_query_time) {
  return {.name = name,
          .square_rows = SquareRows,
          .scan_one = ScanOne,
          .scan_listed = ScanListed,
          .pack_queries = PackQueries,
          .scratch_doubles = ScratchDoubles,
          .scan_group = ScanGroup,
          .filter = Filter,
          .codes = {.lanes = kLanes,
                    .panel_rows = 24,
                    .panel_query_time = panel_query_time,
                    .one_bytes = OneBytes<CodeStep>,
                    .panel_bytes = PanelBytes<CodeStep>,
                    .whole_max = WholeMax<CodeStep>,
                    .pack_one = PackOne<CodeStep>,
                    .pack_panel = PackPanel<CodeStep>,
                    .scan_one = ScanOneCode<CodeStep>,
                    .begin_panels = [] {},
                    .end_panels = [] {},
                    .scan_panels = ScanPanels<CodeStep>,
                    .filter_one = FilterOne,
                    .filter_panels = FilterPanels,
                    .encode_rows = EncodeRowsOf,
                    .encode_query = encode::EncodeQueryCodes}};
}
#endif

// Appends the kernels of this instruction set, fastest first.
void AppendKernels(std::vector<const ScanKernels*>& list) {
#if HWY_TARGET == HWY_AVX3
  static const ScanKernels kWithTiles = [] {
    ScanKernels kernels = KernelsWith<VnniStep>("AVX3_AMX", 1.0 / 48);
    kernels.codes.panel_rows = 2 * kTileRows;
    kernels.codes.begin_panels = BeginTiles;
    kernels.codes.end_panels = EndTiles;
    kernels.codes.scan_panels = ScanPanelsInTiles;
    return kernels;
  }();
  const bool has_vnni = __builtin_cpu_supports("avx512vnni");
  if (has_vnni && TilesAreUsable()) list.push_back(&kWithTiles);
#elif HWY_TARGET == HWY_AVX2
  const bool has_vnni = HasVexVnni();
#endif
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  constexpr bool kIsAvx2 = HWY_TARGET == HWY_AVX2;
  static const ScanKernels kWithVnni =
      KernelsWith<VnniStep>(kIsAvx2 ? "AVX2_VNNI" : "AVX3_VNNI", 1.0 / 20);
  static const ScanKernels kKernels = KernelsWith<WidenedStep>(kIsAvx2 ? "AVX2" : "AVX3", 1.0 / 5);
  if (has_vnni) list.push_back(&kWithVnni);
  list.push_back(&kKernels);
#else
  static_cast<void>(list);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearfield::cpu {
namespace {

HWY_EXPORT(AppendKernels);

std::vector<const ScanKernels*> ListKernels() {
  std::vector<const ScanKernels*> list;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {  // fastest first
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    HWY_DISPATCH_TABLE(AppendKernels)[chosen.GetIndex()](list);
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

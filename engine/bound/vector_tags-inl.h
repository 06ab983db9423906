// Vectors of fp64, for code that is compiled once per instruction set: AVX2 or AVX-512.
#if defined(NEARFIELD_ENGINE_BOUND_VECTOR_TAGS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEARFIELD_ENGINE_BOUND_VECTOR_TAGS_INL_H_
#undef NEARFIELD_ENGINE_BOUND_VECTOR_TAGS_INL_H_
#else
#define NEARFIELD_ENGINE_BOUND_VECTOR_TAGS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// Loops over registers must be fully unrolled, or the accumulators are kept in memory.
#undef NEARFIELD_UNROLL
#ifdef __clang__
#define NEARFIELD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define NEARFIELD_UNROLL _Pragma("GCC unroll 32")
#endif

HWY_BEFORE_NAMESPACE();
namespace nearfield::bound {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<double>;
using Vec = hn::VFromD<Tag>;
inline constexpr Tag kTag;
inline constexpr int32_t kWidth = static_cast<int32_t>(hn::MaxLanes(Tag()));  // doubles per vector
static_assert(kWidth == 4 || kWidth == 8);

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::bound
HWY_AFTER_NAMESPACE();

#endif  // include guard per instruction set

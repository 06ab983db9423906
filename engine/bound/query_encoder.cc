// Compiles the query encoder once per instruction set and picks the fastest that this CPU can run.
#include "engine/bound/query_encoder.h"

#include <cstddef>

// Below AVX2 queries are encoded without SIMD, as rows are (engine/cpu/kernels).
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#define HWY_COMPILE_ALL_ATTAINABLE
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/bound/query_encoder.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#include "engine/bound/int8_code-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace nearfield::bound {
namespace HWY_NAMESPACE {

// Returns the encoder of this instruction set, or null if there is none.
EncodeQueryFunction EncoderOfTarget() {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return EncodeQueryCodes;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace nearfield::bound
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nearfield::bound {
namespace {

HWY_EXPORT(EncoderOfTarget);

EncodeQueryFunction FastestEncoder() {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {  // fastest first
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    const EncodeQueryFunction encode = HWY_DISPATCH_TABLE(EncoderOfTarget)[chosen.GetIndex()]();
    if (encode != nullptr) return encode;
  }
  return EncodeQueryPlain;
}

}  // namespace

QueryBounds EncodeQueryPlain(const EncodeQueryArgs& args) {
  const auto size = static_cast<size_t>(args.dim);
  const auto query = absl::MakeConstSpan(args.query, size);
  const auto first = absl::MakeSpan(args.first, args.first == nullptr ? 0 : size);
  if (args.whole == nullptr) {
    return EncodeQuery(*args.rotation, args.metric, query, first,
                       absl::MakeSpan(args.second, size));
  }
  return EncodeQueryWhole(*args.rotation, args.metric, query, first,
                          absl::MakeSpan(args.whole, size), args.whole_max);
}

QueryEncoder::QueryEncoder() : encode_(FastestEncoder()) {}

QueryBounds QueryEncoder::Encode(const Rotation& rotation, Metric metric,
                                 absl::Span<const float> query, absl::Span<int8_t> first,
                                 absl::Span<int8_t> second) {
  const auto dim = static_cast<int32_t>(query.size());
  const EncodeQueryArgs args = {.rotation = &rotation,
                                .dim = dim,
                                .metric = metric,
                                .query = query.data(),
                                .first = first.data(),
                                .second = second.data(),
                                .scratch = scratch_.Ensure(EncodeScratchDoubles(dim))};
  return encode_(args);
}

}  // namespace nearfield::bound
#endif  // HWY_ONCE

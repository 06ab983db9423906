#include "nearfield/engine/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/score/element.h"

namespace nearfield {
namespace {

// Uses only operations that even the baseline instruction set has for four values at a time: a
// batch has a million values. An exponent of all ones carries into the sign bit.
bool AllFinite(absl::Span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t carries = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    carries |= (score::BitsFromFloat(values.data()[i]) & kExponent) + 0x00800000u;
  }
  return (carries & 0x80000000u) == 0;
}

}  // namespace

std::optional<size_t> FirstNotFinite(absl::Span<const float> values) {
  if (AllFinite(values)) return std::nullopt;
  const auto first =
      std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  return static_cast<size_t>(first - values.begin());
}

absl::Status WidenToFloat(RowType type, absl::Span<const uint8_t> bytes,
                          std::vector<float>* values) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fp32 elements are copied as they lie");
  const auto element_bytes = static_cast<size_t>(BytesPerElement(type));
  if (bytes.size() % element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes are no whole number of ",
                                                   element_bytes, "-byte elements"));
  }
  const size_t count = bytes.size() / element_bytes;
  const size_t begin = values->size();
  values->resize(begin + count);
  if (count == 0) return absl::OkStatus();
  if (type == RowType::kFloat32) {
    std::memcpy(values->data() + begin, bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  for (size_t i = 0; i < count; ++i) {
    (*values)[begin + i] = score::ElementAt(type, bytes.data(), i);
  }
  return absl::OkStatus();
}

}  // namespace nearfield

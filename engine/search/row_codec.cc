#include "nearfield/engine/row_codec.h"

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/score/element.h"

namespace nearfield {

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

#include "engine/corpus/row_check.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace nearfield::corpus {
namespace {

// An element is infinite or NaN if all bits of its exponent are ones. With the sign bit masked off,
// adding one unit of the exponent carries into the sign bit in exactly this case, and never into
// the next element. So one word checks several elements.
struct Lanes {
  uint64_t magnitude_mask = 0;
  uint64_t exponent_unit = 0;
  uint64_t sign_mask = 0;
};

Lanes LanesOf(RowType row_type) {
  switch (row_type) {
    case RowType::kFloat32: return {0x7fffffff7fffffffu, 0x0080000000800000u, 0x8000000080000000u};
    case RowType::kFloat16: return {0x7fff7fff7fff7fffu, 0x0400040004000400u, 0x8000800080008000u};
    case RowType::kBFloat16: return {0x7fff7fff7fff7fffu, 0x0080008000800080u, 0x8000800080008000u};
  }
  return {};
}

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kBlockWords = 512;

uint64_t Carries(const Lanes& lanes, uint64_t word) {
  return ((word & lanes.magnitude_mask) + lanes.exponent_unit) & lanes.sign_mask;
}

bool AnyCarry(const Lanes& lanes, const uint8_t* bytes, size_t words) {
  uint64_t carries = 0;
  for (size_t i = 0; i < words; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + i * kWordBytes, kWordBytes);
    carries |= Carries(lanes, word);
  }
  return carries != 0;
}

}  // namespace

std::optional<int64_t> FindNonFinite(RowType row_type, absl::Span<const uint8_t> rows) {
  const Lanes lanes = LanesOf(row_type);
  const size_t words = rows.size() / kWordBytes;
  size_t clean = 0;  // all words before it are finite
  while (clean < words) {
    const size_t block = std::min(kBlockWords, words - clean);
    if (AnyCarry(lanes, rows.data() + clean * kWordBytes, block)) break;
    clean += block;
  }
  const auto element_bytes = static_cast<size_t>(BytesPerElement(row_type));
  for (size_t byte = clean * kWordBytes; byte < rows.size(); byte += element_bytes) {
    uint64_t word = 0;  // one element; the other lanes are zero, which is finite
    std::memcpy(&word, rows.data() + byte, element_bytes);
    if (Carries(lanes, word) != 0) return static_cast<int64_t>(byte / element_bytes);
  }
  return std::nullopt;
}

std::optional<int64_t> FindZeroRow(RowType row_type, int64_t dim, absl::Span<const uint8_t> rows) {
  const auto element_bytes = static_cast<size_t>(BytesPerElement(row_type));
  const size_t row_bytes = static_cast<size_t>(dim) * element_bytes;
  for (size_t begin = 0; begin < rows.size(); begin += row_bytes) {
    // Without their sign bits, which are in the last byte of each element. The first element of
    // nearly every row ends this loop.
    size_t byte = 0;
    while (byte < row_bytes) {
      const uint8_t mask = byte % element_bytes == element_bytes - 1 ? 0x7f : 0xff;
      if ((rows[begin + byte] & mask) != 0) break;
      ++byte;
    }
    if (byte == row_bytes) return static_cast<int64_t>(begin / row_bytes);
  }
  return std::nullopt;
}

}  // namespace nearfield::corpus

#include "client/formats/row_check.h"

#include <cstring>

namespace nearfield::client {
namespace {

// An element is infinite or NaN if all bits of its exponent are ones.
template <typename Word>
RowCheck CheckWords(std::string_view row, Word exponent) {
  constexpr auto kMagnitude = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
  const size_t count = row.size() / sizeof(Word);
  const auto word_at = [row](size_t i) {
    Word word = 0;
    std::memcpy(&word, row.data() + i * sizeof(Word), sizeof(Word));
    return word;
  };
  Word seen = 0;
  bool finite = true;
  for (size_t i = 0; i < count; ++i) {
    const Word word = word_at(i);
    seen = static_cast<Word>(seen | word);
    finite &= (word & exponent) != exponent;
  }
  RowCheck check{.is_zero = (seen & kMagnitude) == 0};
  if (finite) return check;
  uint64_t at = 0;
  while ((word_at(at) & exponent) != exponent) ++at;
  check.non_finite = at;
  return check;
}

}  // namespace

RowCheck CheckRow(DataType dtype, std::string_view row) {
  switch (dtype) {
    case DataType::kFloat16: return CheckWords<uint16_t>(row, 0x7c00);
    case DataType::kBFloat16: return CheckWords<uint16_t>(row, 0x7f80);
    default: return CheckWords<uint32_t>(row, 0x7f800000);
  }
}

}  // namespace nearfield::client

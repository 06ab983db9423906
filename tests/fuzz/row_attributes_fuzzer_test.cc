#include "tests/fuzz/bounded_run.h"

namespace nearfield::fuzz {
namespace {

using testing::Random;

void PutValue(Random& random, uint8_t type, std::vector<uint8_t>* bytes) {
  if (type == 3) {
    bytes->push_back(random.OneIn(2) ? 1 : 0);
    return;
  }
  const auto size = static_cast<uint8_t>(type == 4 ? random.Between(0, 5) : 8);
  if (type == 4) bytes->push_back(size);
  for (int i = 0; i < size; ++i) bytes->push_back(static_cast<uint8_t>(random.Bits()));
}

// Draws a schema and a row as the encoder would write it, then in most cases changes a few bytes.
std::vector<uint8_t> DrawInput(Random& random) {
  const auto attributes = static_cast<uint8_t>(random.Between(0, 8));
  std::vector<uint8_t> input = {attributes};
  for (int i = 0; i < attributes; ++i) input.push_back(static_cast<uint8_t>(random.Bits()));
  input.push_back(1);
  for (uint8_t attribute = 0; attribute < attributes; ++attribute) {
    if (random.OneIn(3)) continue;
    const uint8_t declared = input[1 + size_t{attribute}];
    const auto type = static_cast<uint8_t>(1 + declared % 5);
    const bool is_list = declared >= 128;
    input.push_back(attribute);
    input.push_back(static_cast<uint8_t>(is_list ? type | 128 : type));
    const int64_t count = is_list ? random.Between(0, 4) : 1;
    if (is_list) input.push_back(static_cast<uint8_t>(count));
    for (int64_t i = 0; i < count; ++i) PutValue(random, type, &input);
  }
  for (int64_t changes = random.Between(0, 4); changes > 0; --changes) {
    const auto at = static_cast<size_t>(random.Between(0, std::ssize(input)));
    input[at] = static_cast<uint8_t>(random.OneIn(2) ? random.Bits() : random.Bits() % 8);
    if (random.OneIn(4)) input.resize(at + 1);
  }
  return input;
}

TEST(RowAttributesFuzz, AnyInputIsRefusedOrWhatTheEncoderWrites) { RunBounded(40'000, DrawInput); }

}  // namespace
}  // namespace nearfield::fuzz

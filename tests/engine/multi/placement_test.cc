// Tests which device holds which row, against a list with one entry for each row.
#include "engine/multi/placement.h"

#include <cstdint>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield::multi {
namespace {

TEST(PlacementTest, EveryRowHasThePlaceAtWhichItWasAppended) {
  Random random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const auto devices = static_cast<size_t>(random.Between(1, 9));
    Placement placement(devices);
    std::vector<Place> places;
    std::vector<uint32_t> rows_of(devices);
    const int64_t runs = random.Between(0, 30);
    for (int64_t run = 0; run < runs; ++run) {
      const auto device = static_cast<uint32_t>(random.Between(0, static_cast<int64_t>(devices)));
      const int64_t count = random.OneIn(5) ? 0 : random.Between(1, 200);
      placement.Append(device, count);
      for (int64_t i = 0; i < count; ++i) {
        places.push_back({.device = device, .local = rows_of[device]++});
      }
    }
    ASSERT_EQ(placement.rows_count(), static_cast<int64_t>(places.size()));
    for (size_t d = 0; d < devices; ++d) EXPECT_EQ(placement.rows_of(d), rows_of[d]);
    for (size_t slot = 0; slot < places.size(); ++slot) {
      const Place place = placement.Of(static_cast<uint32_t>(slot));
      ASSERT_EQ(place.device, places[slot].device);
      ASSERT_EQ(place.local, places[slot].local);
    }
    std::vector<uint64_t> words((places.size() + 63) / 64);
    std::vector<std::vector<uint64_t>> expected;
    for (const uint32_t rows : rows_of) expected.emplace_back((rows + 63) / 64);
    for (size_t slot = 0; slot < places.size(); ++slot) {
      if (!random.OneIn(2)) continue;
      words[slot / 64] |= uint64_t{1} << (slot % 64);
      const Place& place = places[slot];
      expected[place.device][place.local / 64] |= uint64_t{1} << (place.local % 64);
    }
    EXPECT_EQ(placement.Split(words), expected);
  }
}

}  // namespace
}  // namespace nearfield::multi

// Tests of the values of rows: what is read equals what was uploaded, to the bit, whatever was
// merged, dropped and given to other rows.
#include "server/attributes/row_reader.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/attributes/packed_ints.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

TEST(PackedIntsLaws, WhatGoesInComesOut) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 300; ++round) {
    const int64_t bits = random.Between(0, 33);
    std::vector<uint32_t> values(static_cast<size_t>(random.Between(0, 200)));
    uint32_t value_max = 0;
    for (uint32_t& value : values) {
      value = bits == 0 ? 0 : static_cast<uint32_t>(random.Bits() >> (64 - bits));
      value_max = std::max(value_max, value);
    }
    const PackedInts packed(values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(packed.at(static_cast<int64_t>(i)), values[i]) << bits << " bits, " << i;
    }
    EXPECT_LE(packed.bytes(), PackedInts::BytesMax(std::ssize(values), value_max));
  }
}

TEST(OrdinalSetLaws, CountBelowCountsSmallerOrdinals) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 50; ++round) {
    std::vector<uint32_t> ordinals;
    const int64_t end = random.OneIn(2) ? 300 : 300'000;
    for (int64_t i = random.Between(0, 200); i > 0; --i) {
      ordinals.push_back(static_cast<uint32_t>(random.Between(0, end)));
    }
    std::sort(ordinals.begin(), ordinals.end());
    ordinals.erase(std::unique(ordinals.begin(), ordinals.end()), ordinals.end());
    OrdinalSet set = OrdinalSet::FromSorted(ordinals);
    set.Compact();
    EXPECT_LE(set.bytes(), OrdinalSet::BytesMax(std::ssize(ordinals), end));
    for (int i = 0; i < 50; ++i) {
      const auto ordinal = static_cast<uint32_t>(random.Between(0, end + 2));
      EXPECT_EQ(set.CountBelow(ordinal),
                std::lower_bound(ordinals.begin(), ordinals.end(), ordinal) - ordinals.begin());
    }
  }
}

// Rows by ordinal: the expected content of columns.
using RowsByOrdinal = std::map<uint32_t, PlainRow>;

// Reads some of the rows, in any order and some of them twice.
void ExpectRead(Random& random, const std::shared_ptr<const AttributeSnapshot>& snapshot,
                const RowsByOrdinal& rows) {
  std::vector<uint32_t> all;
  for (const auto& [ordinal, row] : rows) all.push_back(ordinal);
  std::vector<uint32_t> ordinals;
  std::vector<PlainRow> expected;
  for (int64_t i = all.empty() ? 0 : random.Between(0, 60); i > 0; --i) {
    ordinals.push_back(random.OneOf<uint32_t>(all));
    expected.push_back(rows.at(ordinals.back()));
  }
  ASSERT_OK_AND_ASSIGN(const RowReader reader, RowReader::Find(snapshot, ordinals));
  ExpectSameBits(ReadAll(reader), BlockOf(*snapshot->schema, expected));
}

TEST(RowReaderLaws, ReadsWhatWasUploaded) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 100; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, random.Between(1, 400));
    RowsByOrdinal expected;
    for (size_t row = 0; row < rows.size(); ++row) {
      expected.emplace(static_cast<uint32_t>(row), rows[row]);
    }
    const std::vector<int64_t> sizes = {
        std::min<int64_t>(random.Between(1, 100), std::ssize(rows))};
    const auto columns = ColumnsOf(schema, rows, sizes);
    ExpectRead(random, columns->Snapshot(), expected);
    while (columns->MergeStep()) {
    }
    ExpectRead(random, columns->Snapshot(), expected);
  }
}

// Columns and their expected content, under random uploads, drops, failed uploads and merges.
class ColumnsModel {
 public:
  explicit ColumnsModel(uint64_t seed) : random_(seed) {}

  void Step() {
    switch (random_.Between(0, 7)) {
      case 0:
      case 1: return Upload();
      case 2: return Drop();
      case 3: return columns_.MergeSmall();
      case 4: columns_.MergeStep(); return;
      case 5: return TakeFreed();
      default: return Hold();
    }
  }
  void ExpectRight() {
    ExpectRead(random_, columns_.Snapshot(), live_);
    for (const Held& held : held_) ExpectRead(random_, held.snapshot, held.rows);
  }

 private:
  // A snapshot, and the rows that were live when it was taken.
  struct Held {
    std::shared_ptr<const AttributeSnapshot> snapshot;
    RowsByOrdinal rows;
  };

  // Uploads rows with free ordinals: with those of dropped rows if there are some.
  void Upload() {
    const std::vector<PlainRow> rows = RandomRows(random_, specs_, random_.Between(1, 60));
    uint32_t first = next_;
    free_.ForEachRange([&](OrdinalRange range) {
      if (range.end - range.begin >= rows.size()) first = static_cast<uint32_t>(range.begin);
    });
    const uint64_t end = first + rows.size();
    free_.Subtract(OrdinalSet::FromRange({.begin = first, .end = end}));
    if (first == next_) next_ = static_cast<uint32_t>(end) + (random_.OneIn(4) ? 3u : 0u);
    AttributeChunkBuilder builder(columns_.Snapshot()->schema);
    ASSERT_OK(builder.Append(BlockOf(*columns_.Snapshot()->schema, rows)));
    ASSERT_OK_AND_ASSIGN(auto chunks, builder.Build(first));
    ASSERT_OK(columns_.Add(std::move(chunks)));
    if (random_.OneIn(5)) return columns_.Release(OrdinalSet::FromRange({first, end}));  // failed
    for (size_t row = 0; row < rows.size(); ++row) {
      live_.emplace(first + static_cast<uint32_t>(row), rows[row]);
    }
  }
  void Drop() {
    OrdinalSet dead;
    const int64_t one_in = random_.OneOf<int64_t>({1, 2, 10});
    const auto begin = static_cast<uint32_t>(random_.Between(0, next_ + 1));
    for (auto row = live_.lower_bound(begin); row != live_.end() && row->first < begin + 100;) {
      const bool drops = random_.OneIn(one_in);
      if (drops) dead.Add(row->first);
      row = drops ? live_.erase(row) : std::next(row);
    }
    columns_.Drop(dead);
  }
  void TakeFreed() { free_.UniteWith(columns_.TakeFreed()); }
  void Hold() {
    held_.push_back({.snapshot = columns_.Snapshot(), .rows = live_});
    if (held_.size() > 3) held_.erase(held_.begin());
  }

  Random random_;
  const std::vector<AttributeSpec> specs_ = RandomSpecs(random_);
  AttributeColumns columns_{*AttributeSchema::Create(specs_, {})};
  RowsByOrdinal live_;
  OrdinalSet free_;
  uint32_t next_ = 0;  // larger than all ordinals in use
  std::vector<Held> held_;
};

TEST(RowReaderLaws, MergesDropsAndReusedOrdinalsChangeNoRow) {
  const uint64_t seed = testing::TestSeed();
  for (int round = 0; round < testing::RandomRounds(30); ++round) {
    ColumnsModel model(seed + round);
    for (int step = 0; step < 100; ++step) {
      model.Step();
      model.ExpectRight();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(RowReaderTest, ARowThatIsNotThereIsAnError) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "x"}}, {});
  const std::vector<PlainRow> rows(3, {.attributes = {std::nullopt}});
  const auto columns = ColumnsOf(schema, rows, {});
  EXPECT_THAT(RowReader::Find(columns->Snapshot(), {2, 3}),
              FailsWith(absl::StatusCode::kInternal, "ordinal 3"));
}

// Returns rows with one value each.
std::vector<PlainRow> RowsOf(int64_t rows_count, const std::function<PlainValue(int64_t)>& value) {
  std::vector<PlainRow> rows;
  for (int64_t row = 0; row < rows_count; ++row) {
    rows.push_back({.attributes = {std::vector<PlainValue>{value(row)}}});
  }
  return rows;
}

// Values of which each has a bitmap, of which all are different, and of which all are equal.
TEST(RowReaderTest, ReadsLargeChunks) {
  constexpr int64_t kRows = 150'000;
  const std::vector<std::pair<AttributeType, std::function<PlainValue(int64_t)>>> cases = {
      {AttributeType::kInt64, [](int64_t row) { return PlainValue(row % 7); }},
      {AttributeType::kDouble,
       [](int64_t row) { return row % 3 == 0 ? -0.0 : static_cast<double>(row * 7919 % kRows); }},
      {AttributeType::kBool, [](int64_t) { return true; }},
      {AttributeType::kKeyword, [](int64_t row) { return std::to_string(row); }}};
  for (const auto& [type, value] : cases) {
    const AttributeSchema schema = *AttributeSchema::Create({{.name = "x", .type = type}}, {});
    const std::vector<PlainRow> rows = RowsOf(kRows, value);
    const std::vector<int64_t> sizes = {kRows / 3};
    const auto columns = ColumnsOf(schema, rows, sizes);
    while (columns->MergeStep()) {
    }
    std::vector<uint32_t> ordinals;
    for (uint32_t row = 0; row < kRows; ++row) ordinals.push_back(row);
    ASSERT_OK_AND_ASSIGN(const RowReader reader, RowReader::Find(columns->Snapshot(), ordinals));
    ExpectSameBits(ReadAll(reader), BlockOf(schema, rows));
  }
}

// An upload reserves this many bytes before its index is built.
TEST(RowReaderLaws, AnIndexIsNotLargerThanItsLimit) {
  const auto expect_bounded = [](const AttributeSchema& schema, absl::Span<const PlainRow> rows) {
    AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
    ASSERT_OK(builder.Append(BlockOf(schema, rows)));
    const int64_t bytes_max = builder.built_bytes_max();
    ASSERT_OK_AND_ASSIGN(const auto chunks, builder.Build(77));
    int64_t bytes = 0;
    for (const auto& chunk : chunks) bytes += chunk->bytes();
    EXPECT_LE(bytes, bytes_max);
  };
  Random random(testing::TestSeed());
  for (int round = 0; round < testing::RandomRounds(200); ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const int64_t rows_count = random.Between(1, random.OneIn(10) ? 5000 : 50);
    expect_bounded(*AttributeSchema::Create(specs, {}), RandomRows(random, specs, rows_count));
  }
  for (const AttributeType type :
       {AttributeType::kInt64, AttributeType::kDouble, AttributeType::kKeyword}) {
    const AttributeSchema schema = *AttributeSchema::Create({{.name = "x", .type = type}}, {});
    // The vectors of these sizes have no spare room.
    for (const int64_t rows_count : {1 << 12, 1 << 15, 1 << 18}) {
      for (const int64_t values_count : {rows_count, rows_count - 1, int64_t{20}}) {
        expect_bounded(schema, RowsOf(rows_count, [&](int64_t row) -> PlainValue {
                         const int64_t value = row * 7919 % values_count;
                         if (type == AttributeType::kInt64) return value;
                         if (type == AttributeType::kDouble) return static_cast<double>(value);
                         return std::to_string(value);
                       }));
      }
    }
  }
}

}  // namespace
}  // namespace nearfield::server

#include "client/cpp/block_cutter.h"

#include <random>
#include <string>

#include "tests/client/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::client {
namespace {

struct Rows {
  IdColumn ids;
  std::string vectors;
  std::vector<std::string> payloads;

  std::vector<AttributeColumn> attributes;

  RowBlock block() const {
    return {.ids = &ids,
            .dtype = DataType::kFloat32,
            .vectors = vectors,
            .payloads = payloads,
            .attributes = attributes};
  }
};

Rows RandomRows(std::mt19937& random) {
  Rows rows;
  const size_t count = 1 + random() % 50;
  rows.ids = EmptyIds(random() % 2 == 0 ? IdType::kUint64 : IdType::kString);
  for (size_t i = 0; i < count; ++i) {
    Append(TypeOf(rows.ids) == IdType::kUint64 ? Id(uint64_t{i})
                                               : Id(std::string(1 + random() % 30, 'i')),
           &rows.ids);
  }
  rows.vectors.assign(count * 4 * (1 + random() % 8), 'v');
  if (random() % 2 == 0) {
    for (size_t i = 0; i < count; ++i) rows.payloads.emplace_back(random() % 40, 'p');
  }
  return rows;
}

// Returns a lower bound for the size of a message with these rows: the bytes of their data.
uint64_t RawBytes(const Rows& rows, size_t begin, size_t end) {
  uint64_t bytes = (end - begin) * (rows.vectors.size() / Count(rows.ids));
  for (size_t i = begin; i < end; ++i) {
    bytes += TypeOf(rows.ids) == IdType::kUint64 ? 8 : ToString(At(rows.ids, i)).size();
    if (!rows.payloads.empty()) bytes += rows.payloads[i].size();
  }
  return bytes;
}

TEST(BlockCutter, BlocksFollowEachOtherFillAndFit) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  constexpr uint64_t kBytesMax = 300;
  constexpr uint64_t kRowBytesMost = 8 * 4 + 30 + 40 + 12;
  for (int round = 0; round < 500; ++round) {
    const Rows rows = RandomRows(random);
    std::vector<ColumnPlace> places;
    for (size_t begin = 0; begin < Count(rows.ids);) {
      ASSERT_OK_AND_ASSIGN(const auto end, BlockEnd(rows.block(), begin, kBytesMax, &places));
      ASSERT_GT(end, begin);
      ASSERT_LE(RawBytes(rows, begin, end), kBytesMax);
      const uint64_t most = RawBytes(rows, begin, end) + 12 * (end - begin) + kRowBytesMost + 77;
      ASSERT_TRUE(end == Count(rows.ids) || most > kBytesMax);
      begin = end;
    }
  }
}

// A block has 77 bytes for its own fields; here each row has 4 bytes of vector and 8 of id.
TEST(BlockCutter, ABlockHoldsTheRowsThatFitAndNoneMore) {
  Rows rows;
  rows.ids = IdColumn(std::vector<uint64_t>(10));
  rows.vectors.assign(10 * 4, 'v');
  std::vector<ColumnPlace> places;
  EXPECT_THAT(BlockEnd(rows.block(), 0, 77 + 3 * 12, &places), IsOkAndHolds(3u));
  EXPECT_THAT(BlockEnd(rows.block(), 0, 77 + 3 * 12 - 1, &places), IsOkAndHolds(2u));
  EXPECT_THAT(BlockEnd(rows.block(), 9, 77 + 12, &places), IsOkAndHolds(10u));
  EXPECT_THAT(BlockEnd(rows.block(), 9, 77 + 12 - 1, &places),
              StatusIs(kInvalidArgument, HasSubstr("takes 89 bytes")));
}

// Returns columns of every shape: scalars and lists, with and without missing values.
std::vector<AttributeColumn> RandomColumns(std::mt19937& random, size_t rows_count) {
  AttributeColumnBuilder numbers({"n", AttributeType::kInt64});
  AttributeColumnBuilder keywords({"k", AttributeType::kKeyword, true});
  const auto missing = random() % 3;  // of four rows
  for (size_t i = 0; i < rows_count; ++i) {
    if (random() % 4 < missing) {
      numbers.AddMissing();
      keywords.AddMissing();
      continue;
    }
    EXPECT_OK(numbers.Add(static_cast<int64_t>(random())));
    std::vector<AttributeValue> list;
    for (auto j = random() % 4; j > 0; --j) list.emplace_back(std::string(random() % 30, 'k'));
    EXPECT_OK(keywords.AddList(list));
  }
  return {numbers.Take(), keywords.Take()};
}

TEST(BlockCutter, AttributesAreCutWithTheirRows) {
  std::mt19937 random(static_cast<uint32_t>(testing::TestSeed()));
  constexpr uint64_t kBytesMax = 700;
  for (int round = 0; round < 500; ++round) {
    Rows rows = RandomRows(random);
    rows.attributes = RandomColumns(random, Count(rows.ids));
    ASSERT_OK(CheckColumns(rows.block()));
    const RowBlock block = rows.block();
    std::vector<ColumnPlace> places = StartOf(block);
    for (size_t begin = 0; begin < Count(rows.ids);) {
      const std::vector<ColumnPlace> from = places;
      ASSERT_OK_AND_ASSIGN(const auto end, BlockEnd(block, begin, kBytesMax, &places));
      uint64_t bytes = RawBytes(rows, begin, end);
      const auto& keywords = std::get<std::vector<std::string>>(rows.attributes[1].values);
      for (size_t i = from[1].values(); i < places[1].values(); ++i) bytes += keywords[i].size();
      for (const size_t column : std::vector<size_t>{0, 1}) {
        ASSERT_EQ(from[column].rows(), begin);
        ASSERT_EQ(places[column].rows(), end);
      }
      ASSERT_LE(bytes, kBytesMax);
      begin = end;
    }
    // The last position is the end of every column.
    EXPECT_EQ(places[0].values(), Count(rows.attributes[0].values));
    EXPECT_EQ(places[1].values(), Count(rows.attributes[1].values));
    EXPECT_EQ(places[1].rows_with_value(), rows.attributes[1].list_sizes.size());
  }
}

TEST(BlockCutter, AttributeColumnsMustAgree) {
  Rows rows{.ids = std::vector<uint64_t>{5, 6}, .vectors = std::string(16, 'v'), .payloads = {}};
  const AttributeColumn good[] = {
      {.attribute = "a", .values = std::vector<int64_t>{1, 2}},
      {.attribute = "a", .values = std::vector<int64_t>{1}, .presence = {false, true}},
      {.attribute = "a", .values = std::vector<int64_t>{}, .presence = {false, false}},
      {.attribute = "a", .values = std::vector<int64_t>{1, 2, 3}, .list_sizes = {3, 0}},
      {.attribute = "a",
       .values = std::vector<int64_t>{1, 2, 3},
       .presence = {true, false},
       .list_sizes = {3}}};
  const AttributeColumn bad[] = {
      {.attribute = "a", .values = std::vector<int64_t>{1}},
      {.attribute = "a", .values = std::vector<int64_t>{1, 2}, .presence = {false, true}},
      {.attribute = "a", .values = std::vector<int64_t>{1}, .presence = {true}},
      {.attribute = "a", .values = std::vector<int64_t>{1, 2, 3}, .list_sizes = {3}},
      {.attribute = "a", .values = std::vector<int64_t>{1, 2, 3}, .list_sizes = {3, 1}},
      {.attribute = "a",
       .values = std::vector<int64_t>{1, 2, 3},
       .presence = {true, false},
       .list_sizes = {3, 0}}};
  for (const AttributeColumn& column : good) {
    rows.attributes = {column};
    EXPECT_OK(CheckColumns(rows.block()));
  }
  for (const AttributeColumn& column : bad) {
    rows.attributes = {column};
    EXPECT_THAT(CheckColumns(rows.block()),
                StatusIs(kInvalidArgument, HasSubstr("attributes[0] (a)")));
  }
}

TEST(BlockCutter, ARowThatFitsNoBlockIsNamed) {
  Rows rows{.ids = std::vector<uint64_t>{5, 6},
            .vectors = std::string(8, 'v'),
            .payloads = {"", std::string(1000, 'p')}};
  std::vector<ColumnPlace> none;
  EXPECT_EQ(*BlockEnd(rows.block(), 0, 500, &none), 1u);
  EXPECT_THAT(BlockEnd(rows.block(), 1, 500, &none), StatusIs(kInvalidArgument, HasSubstr("id 6")));
  EXPECT_FALSE(BlockEnd(rows.block(), 0, 0, &none).ok());
}

TEST(BlockCutter, ColumnsMustAgree) {
  Rows rows{.ids = std::vector<uint64_t>{5, 6}, .vectors = std::string(16, 'v'), .payloads = {}};
  EXPECT_OK(CheckColumns(rows.block()));
  rows.payloads = {"x"};
  EXPECT_THAT(CheckColumns(rows.block()), StatusIs(kInvalidArgument, HasSubstr("payloads")));
  rows.payloads = {};
  for (const size_t bytes : std::vector<size_t>{0, 1, 4, 15, 17}) {
    rows.vectors.assign(bytes, 'v');
    EXPECT_THAT(CheckColumns(rows.block()), StatusIs(kInvalidArgument, HasSubstr("vectors")))
        << bytes;
  }
  rows.ids = std::vector<uint64_t>{};
  EXPECT_FALSE(CheckColumns(rows.block()).ok());
  EXPECT_OK(CheckColumns(RowBlock()));
}

}  // namespace
}  // namespace nearfield::client

#include "client/cpp/block_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/testing/seed.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::client {
namespace {

using absl_testing::StatusIs;
using ::testing::HasSubstr;

struct Rows {
  IdColumn ids;
  std::string vectors;
  std::vector<std::string> payloads;

  RowBlock block() const {
    return {.ids = &ids, .dtype = DataType::kFloat32, .vectors = vectors, .payloads = payloads};
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

// The least a message with these rows can take: their bytes alone.
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
    for (size_t begin = 0; begin < Count(rows.ids);) {
      const auto end = BlockEnd(rows.block(), begin, kBytesMax);
      ASSERT_OK(end);
      ASSERT_GT(*end, begin);
      ASSERT_LE(RawBytes(rows, begin, *end), kBytesMax);
      const uint64_t most = RawBytes(rows, begin, *end) + 12 * (*end - begin) + kRowBytesMost + 77;
      ASSERT_TRUE(*end == Count(rows.ids) || most > kBytesMax);
      begin = *end;
    }
  }
}

TEST(BlockCutter, ARowThatFitsNoBlockIsNamed) {
  Rows rows{.ids = std::vector<uint64_t>{5, 6},
            .vectors = std::string(8, 'v'),
            .payloads = {"", std::string(1000, 'p')}};
  EXPECT_EQ(*BlockEnd(rows.block(), 0, 500), 1u);
  EXPECT_THAT(BlockEnd(rows.block(), 1, 500),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("id 6")));
  EXPECT_FALSE(BlockEnd(rows.block(), 0, 0).ok());
}

TEST(BlockCutter, ColumnsMustAgree) {
  Rows rows{.ids = std::vector<uint64_t>{5, 6}, .vectors = std::string(16, 'v'), .payloads = {}};
  EXPECT_OK(CheckColumns(rows.block()));
  rows.payloads = {"x"};
  EXPECT_THAT(CheckColumns(rows.block()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("payloads")));
  rows.payloads = {};
  for (const size_t bytes : std::vector<size_t>{0, 1, 4, 15, 17}) {
    rows.vectors.assign(bytes, 'v');
    EXPECT_THAT(CheckColumns(rows.block()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("vectors")))
        << bytes;
  }
  rows.ids = std::vector<uint64_t>{};
  EXPECT_FALSE(CheckColumns(rows.block()).ok());
  EXPECT_OK(CheckColumns(RowBlock()));
}

}  // namespace
}  // namespace nearfield::client

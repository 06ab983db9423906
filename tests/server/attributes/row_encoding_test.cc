// Tests of the row encoding: attributes survive it to the bit, and no other bytes are accepted.
#include "server/attributes/row_encoding.h"

#include <string>
#include <vector>

#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

TEST(RowEncodingLaws, WhatGoesInComesOut) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, random.Between(0, 40));
    const AttributeBlock block = BlockOf(schema, rows);
    ASSERT_OK_AND_ASSIGN(const auto encoded, EncodeRowAttributes(schema, block, {}));
    ASSERT_EQ(encoded.size(), block.rows_count);
    ASSERT_OK_AND_ASSIGN(const auto decoded, DecodeRowAttributes(schema, encoded));
    ExpectSameBits(decoded, block);
  }
}

// A changed byte is rejected or encodes another row. No two encodings have the same attributes.
TEST(RowEncodingLaws, BytesAndAttributesAreOneToOne) {
  Random random(testing::TestSeed());
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, 1);
    std::string bytes(EncodeRowAttributes(schema, BlockOf(schema, rows), {})->at(0));
    const auto at = [&] { return static_cast<size_t>(random.Between(0, std::ssize(bytes))); };
    if (bytes.empty()) continue;
    if (random.OneIn(3)) {
      bytes.resize(at());
    } else if (random.OneIn(3)) {
      bytes.insert(at(), 1, static_cast<char>(random.Bits()));
    } else {
      bytes[at()] = static_cast<char>(random.Bits());
    }
    BytesColumn column;
    column.Append(bytes);
    const auto decoded = DecodeRowAttributes(schema, column);
    if (!decoded.ok()) {
      ++refused;
      EXPECT_THAT(decoded, FailsWith(kDataLoss, "stored attributes of row 0"));
      continue;
    }
    EXPECT_EQ(EncodeRowAttributes(schema, *decoded, {})->at(0), bytes);
  }
  EXPECT_GT(refused, 300);
}

TEST(RowEncodingTest, TheFormatIsFrozen) {
  const std::vector<AttributeSpec> specs = {
      {.name = "i"},
      {.name = "d", .type = AttributeType::kDouble},
      {.name = "b", .type = AttributeType::kBool},
      {.name = "k", .type = AttributeType::kKeyword},
      {.name = "t", .type = AttributeType::kTimestamp, .is_list = true}};
  const AttributeSchema schema = *AttributeSchema::Create(specs, {});
  const std::vector<PlainRow> rows = {
      {.attributes = {std::vector<PlainValue>{int64_t{-2}}, std::vector<PlainValue>{-0.0},
                      std::vector<PlainValue>{true}, std::vector<PlainValue>{std::string(130, 'k')},
                      std::vector<PlainValue>{int64_t{1}, int64_t{256}}}},
      {.attributes = {std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt}},
      {.attributes = {std::nullopt, std::nullopt, std::nullopt, std::nullopt,
                      std::vector<PlainValue>{}}}};
  ASSERT_OK_AND_ASSIGN(const auto encoded, EncodeRowAttributes(schema, BlockOf(schema, rows), {}));
  const std::string expected = std::string("\x01") + std::string("\x00\x01", 2) + "\xfe" +
                               std::string(7, '\xff') + "\x01\x02" + std::string(7, '\0') + "\x80" +
                               "\x02\x03\x01" + "\x03\x04\x82\x01" + std::string(130, 'k') +
                               "\x04\x85\x02\x01" + std::string(8, '\0') + "\x01" +
                               std::string(6, '\0');
  EXPECT_EQ(encoded.at(0), expected);
  EXPECT_EQ(encoded.at(1), "");
  EXPECT_EQ(encoded.at(2), std::string("\x01\x04\x85\x00", 4));
}

TEST(RowEncodingTest, BytesOfARowAreBounded) {
  const AttributeSchema schema = *AttributeSchema::Create(
      {{.name = "k", .type = AttributeType::kKeyword, .is_list = true}}, {});
  // Version, number, type, count; then keywords with a length in two bytes.
  const auto encoded = [&](size_t last_bytes) {
    std::vector<PlainValue> list(64, std::string(1020, 'k'));
    list.back() = std::string(last_bytes, 'k');
    const std::vector<PlainRow> rows = {{.attributes = {std::nullopt}}, {.attributes = {list}}};
    return EncodeRowAttributes(schema, BlockOf(schema, rows), {});
  };
  const size_t at_limit = 65536 - 4 - 63 * 1022 - 2;
  EXPECT_OK(encoded(at_limit));
  EXPECT_THAT(encoded(at_limit + 1),
              FailsWith(kInvalidArgument, "row 1 has 65537 bytes", "must be at most 65536"));
}

TEST(RowEncodingTest, WhatNoEncoderWritesIsRefused) {
  const AttributeSchema schema =
      *AttributeSchema::Create({{.name = "d", .type = AttributeType::kDouble},
                                {.name = "b", .type = AttributeType::kBool},
                                {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}},
                               {});
  const auto refusal = [&](const std::string& bytes) {
    BytesColumn column;
    column.Append(bytes);
    return std::string(DecodeRowAttributes(schema, column).status().message());
  };
  const std::string nan = std::string("\0\0\0\0\0\0\xf8\x7f", 8);
  EXPECT_THAT(refusal("\x02"), HasSubstr("unknown version"));
  EXPECT_THAT(refusal("\x01"), HasSubstr("no attribute after the version"));
  EXPECT_THAT(refusal(std::string("\x01\x00\x02", 3) + nan), HasSubstr("a NaN"));
  EXPECT_THAT(refusal(std::string("\x01\x00\x01", 3) + std::string(8, '\0')),
              HasSubstr("\"d\" is not of type double"));
  EXPECT_THAT(refusal("\x01\x01\x03\x02"), HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(refusal("\x01\x01\x03\x01\x01\x03\x01"), HasSubstr("does not have there"));
  EXPECT_THAT(refusal("\x01\x03\x03\x01"), HasSubstr("does not have there"));
  EXPECT_THAT(refusal("\x01\x81"), HasSubstr("does not have there"));
  EXPECT_THAT(refusal(std::string("\x01\x81\x00\x03\x01", 5)), HasSubstr("does not have there"));
  EXPECT_THAT(refusal("\x01\x02\x84\x7f"), HasSubstr("a list past the end"));
  EXPECT_THAT(refusal("\x01\x02\x84\x01\x05\x61"), HasSubstr("a keyword past the end"));
  EXPECT_THAT(refusal("\x01\x02\x84\x02\x01\x61"), HasSubstr("without a length"));
  EXPECT_THAT(refusal(std::string("\x01\x02\x84\xff\xff\xff\xff\xff\x01", 9)),
              HasSubstr("a list past the end"));
  EXPECT_EQ(refusal("\x01\x01\x03\x01\x02\x84\x01\x01\x61"), "");
}

}  // namespace
}  // namespace nearfield::server

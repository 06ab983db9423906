// Tests of the conversion of returned attributes: the columns of a reply have the uploaded values
// to the bit, and their bytes are known before they are made.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/argument_error.h"
#include "server/convert/attributes.h"
#include "server/convert/returned_attributes.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using ::testing::_;
using testing::Random;
using Columns = google::protobuf::RepeatedPtrField<pb::AttributeColumn>;
using Names = google::protobuf::RepeatedPtrField<std::string>;

Names NamesOf(const std::vector<std::string>& names) { return Names(names.begin(), names.end()); }

TEST(ReturnedAttributesLaws, ColumnsComeBackAndTheirBytesAreBounded) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, random.Between(1, 40));
    std::vector<uint32_t> ordinals;
    for (uint32_t row = 0; row < rows.size(); ++row) ordinals.push_back(row);
    const auto columns = ColumnsOf(schema, rows, {});
    ASSERT_OK_AND_ASSIGN(const RowReader reader, RowReader::Find(columns->Snapshot(), ordinals));
    ASSERT_OK_AND_ASSIGN(const WantedAttributes all, WantedFromProto(NamesOf({"*"}), schema));
    ASSERT_EQ(static_cast<int32_t>(all.size()), schema.size());

    const auto count = random.Between(0, reader.rows_count() + 1);
    Columns messages;
    ToProto(reader, count, all, &messages);
    ASSERT_OK_AND_ASSIGN(const auto back, FromProto(messages, schema, count, AttributeLimits()));
    ExpectSameBits(back,
                   BlockOf(schema, absl::MakeConstSpan(rows).first(static_cast<size_t>(count))));

    Columns whole;
    ToProto(reader, reader.rows_count(), all, &whole);
    int64_t wire = 0;
    for (const pb::AttributeColumn& column : whole) {
      wire += static_cast<int64_t>(column.ByteSizeLong());
    }
    const MessageBytes bytes = ColumnBytes(reader, all);
    EXPECT_LE(bytes.wire, wire);
    EXPECT_LE(wire, bytes.held);
    EXPECT_LE(bytes.held, ColumnBytes(reader, {}).held +
                              AttributeBytesLimit(schema, all) * reader.rows_count() +
                              1000 * schema.size());
  }
}

TEST(ReturnedAttributesTest, ColumnsAreInTheOrderOfTheDeclaration) {
  const AttributeSchema schema =
      *AttributeSchema::Create({{.name = "b"}, {.name = "a"}, {.name = "c"}}, {});
  EXPECT_THAT(WantedFromProto(NamesOf({"c", "b"}), schema), IsOkAndHolds(ElementsAre(0, 2)));
  EXPECT_THAT(WantedFromProto(NamesOf({}), schema), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(WantedFromProto(NamesOf({"*"}), schema), IsOkAndHolds(ElementsAre(0, 1, 2)));
  EXPECT_THAT(WantedFromProto(NamesOf({"*"}), AttributeSchema()), IsOkAndHolds(IsEmpty()));
}

TEST(ReturnedAttributesTest, WrongNamesAreRefused) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "a"}, {.name = "b"}}, {});
  const auto facts = [&](const std::vector<std::string>& names) {
    const absl::Status status = WantedFromProto(NamesOf(names), schema).status();
    EXPECT_THAT(status, StatusIs(kInvalidArgument));
    const ArgumentFacts given = ArgumentFactsOf(status);
    return std::vector<std::string>{given.field, given.value, given.limit};
  };
  EXPECT_THAT(facts({"a", "x"}),
              ElementsAre("attributes[1]", "\"x\"", "an attribute that the collection declares"));
  EXPECT_THAT(facts({""}), ElementsAre("attributes[0]", "\"\"", _));
  EXPECT_THAT(facts({"b", "a", "b"}), ElementsAre("attributes[2]", "\"b\"", "once"));
  EXPECT_THAT(facts({"a", "*"}), ElementsAre("attributes[1]", "\"*\"", "the only one"));
  EXPECT_THAT(facts({"*", "*"}), ElementsAre("attributes[0]", "\"*\"", "the only one"));
}

}  // namespace
}  // namespace nearfield::server

// Tests of the conversion of the filters of requests, declared attributes and attribute columns to
// and from messages.
#include <string>
#include <vector>

#include "engine/base/argument_error.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/attributes/filter.h"
#include "server/attributes/row_encoding.h"
#include "server/convert/attributes.h"
#include "server/convert/filter.h"
#include "server/convert/ingest.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_messages.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"
#include "tests/testing/text_message.h"

namespace nearfield::server {
namespace {

using testing::FromText;
using testing::Random;

auto Refused(const std::string& path, const std::string& part) {
  return StatusIs(kInvalidArgument, AllOf(StartsWith(path + ": "), HasSubstr(part)));
}

const AttributeSchema& YearSchema() {
  static const auto* const schema = new AttributeSchema(*AttributeSchema::Create(
      {{.name = "year"}, {.name = "price", .type = AttributeType::kDouble}}, {}));
  return *schema;
}

absl::StatusOr<Filter> Converted(const pb::CountRequest& request,
                                 IdType id_type = IdType::kUint64) {
  return FromProto(FilterOf(request), id_type, YearSchema());
}
absl::StatusOr<Filter> Converted(const std::string& request, IdType id_type = IdType::kUint64) {
  return Converted(pb::CountRequest(FromText(request)), id_type);
}

TEST(FilterConvertLaws, ValuesInTheTextAndInArgumentsAreTheSameFilter) {
  Random random(testing::TestSeed());
  for (int compared = 0; compared < 500;) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const FilterTree tree = RandomFilter(random, specs, 4, 20);
    if (!FitsAsText(tree)) continue;
    pb::CountRequest request;
    SetFilter(PrintWithArguments(tree, random), &request);
    const auto filter = FromProto(FilterOf(request), IdType::kUint64, schema);
    ASSERT_OK(filter) << request.ShortDebugString();
    ASSERT_EQ(filter->canonical(), Filter(tree, schema).canonical()) << request.ShortDebugString();
    ++compared;
  }
}

TEST(FilterConvertTest, ARequestHasATextOrNoFilter) {
  pb::CountRequest request;
  EXPECT_FALSE(FilterOf(request).given());
  EXPECT_EQ(FilterMemoryMax(FilterOf(request)), 0);
  EXPECT_EQ(ToSent(FilterOf(request)).text, "");
  request.set_filter_text("year == $1");
  request.add_filter_args()->mutable_values()->add_int64_values(7);
  EXPECT_OK(Converted(request));
  const SentFilter sent = ToSent(FilterOf(request));
  EXPECT_EQ(sent.text, "year == $1");
  EXPECT_THAT(sent.arguments, ElementsAre(request.filter_args(0).SerializeAsString()));
  EXPECT_GT(FilterMemoryMax(FilterOf(request)), 0);
  request.set_filter_text("");
  EXPECT_TRUE(FilterOf(request).given());
  EXPECT_THAT(Converted(request), Refused("filter_text", "column 1: a filter is expected"));
  request.clear_filter_text();
  EXPECT_TRUE(FilterOf(request).given());
  EXPECT_THAT(Converted(request), Refused("filter_args", "1 given without filter_text"));
}

TEST(FilterConvertTest, AnArgumentThatIsNoneIsRefusedWithItsPlace) {
  const std::string two = "filter_text: 'year in $2 and price in $1' filter_args { values {} } ";
  EXPECT_OK(Converted(two + "filter_args { values {} }"));
  EXPECT_THAT(Converted(two + "filter_args {}"),
              Refused("filter_args[1]", "neither values nor ids are set"));
  EXPECT_THAT(Converted(two + "filter_args { values { int64_values: 1 bool_values: true } }"),
              Refused("filter_args[1].values", "both int64 and bool"));
  EXPECT_THAT(Converted(two + "filter_args { values { double_values: [1, nan] } }"),
              Refused("filter_args[1].values[1]", "NaN"));
  EXPECT_THAT(Converted(two + "filter_args { ids {} }"),
              Refused("filter_text", "column 9: $2: ids, year is an int64"));
}

TEST(FilterConvertTest, IdsAreOfTheCollectionsType) {
  const std::string text = "filter_text: 'id in $1' filter_args { ids { ";
  EXPECT_OK(Converted(text + "} }"));
  EXPECT_OK(Converted(text + "numbers: 18446744073709551615 } }"));
  EXPECT_THAT(Converted(text + "texts: 'a' } }"),
              Refused("filter_args[0].ids.texts", "ids of type uint64"));
  EXPECT_OK(Converted(text + "texts: 'a' } }", IdType::kString));
  EXPECT_THAT(Converted(text + "texts: ['a', ''] } }", IdType::kString),
              Refused("filter_args[0].ids.texts[1]", "must be 1 .. 512"));
}

TEST(FilterConvertTest, ArgumentsAreBounded) {
  const auto refused = [](const std::string& message) {
    return StatusIs(kInvalidArgument, StartsWith(message));
  };
  pb::CountRequest request;
  request.set_filter_text("year in $1");
  for (int i = 0; i < 4096; ++i) {
    if (i == 0) request.add_filter_args();
    request.mutable_filter_args(0)->mutable_values()->add_int64_values(i);
  }
  EXPECT_OK(Converted(request));
  request.mutable_filter_args(0)->mutable_values()->add_int64_values(0);
  EXPECT_THAT(Converted(request), refused("filter_args[0].values = 4097 values, must be at most"));
  request.clear_filter_args();
  for (uint64_t i = 0; i < 4097; ++i) {
    if (i == 0) request.add_filter_args();
    request.mutable_filter_args(0)->mutable_ids()->add_numbers(i);
  }
  EXPECT_THAT(Converted(request), refused("filter_args[0].ids = 4097 ids, must be 0 .. 4096"));
  request.clear_filter_args();
  request.add_filter_args()->mutable_values()->add_keyword_values(std::string(65'600, 'x'));
  EXPECT_THAT(Converted(request), refused("filter_args = 656"));
  EXPECT_EQ(FilterMemoryMax(FilterOf(request)), 0) << "it is refused before it is converted";
  request.clear_filter_args();
  for (int i = 0; i < 4097; ++i) request.add_filter_args();
  EXPECT_THAT(Converted(request), refused("filter_args = 4097 arguments, must be at most 4096"));
}

TEST(AttributeSpecConvertTest, ASchemaComesBack) {
  Random random(testing::TestSeed());
  const std::vector<AttributeSpec> specs = RandomSpecs(random);
  google::protobuf::RepeatedPtrField<pb::AttributeSpec> messages;
  ToProto(*AttributeSchema::Create(specs, {}), &messages);
  ASSERT_OK_AND_ASSIGN(const auto back, FromProto(messages, AttributeLimits()));
  ASSERT_EQ(back.size(), static_cast<int32_t>(specs.size()));
  for (int32_t i = 0; i < back.size(); ++i) EXPECT_EQ(back.at(i), specs[static_cast<size_t>(i)]);
  messages.Add()->set_name("untyped");
  EXPECT_THAT(FromProto(messages, AttributeLimits()),
              Refused("attributes[" + std::to_string(specs.size()) + "].type", "0, must be INT64"));
  EXPECT_EQ(AttributeTypeFromProto(static_cast<pb::AttributeType>(99)), std::nullopt);
}

class ColumnConvertTest : public ::testing::Test {
 protected:
  using Columns = google::protobuf::RepeatedPtrField<pb::AttributeColumn>;

  absl::Status Converted(const Columns& columns) const {
    return FromProto(columns, schema_, 3, AttributeLimits()).status();
  }
  // Converts one column, a text.
  absl::Status ConvertedOne(const std::string& column) const {
    return Converted(pb::UploadBlock(FromText("attributes { " + column + " }")).attributes());
  }
  static Columns Of(const std::string& name, const std::vector<int64_t>& integers) {
    Columns columns;
    columns.Add()->set_attribute(name);
    columns[0].mutable_values()->mutable_int64_values()->Add(integers.begin(), integers.end());
    return columns;
  }

  const AttributeSchema schema_ =
      *AttributeSchema::Create({{.name = "i"},
                                {.name = "d", .type = AttributeType::kDouble},
                                {.name = "ds", .type = AttributeType::kDouble, .is_list = true},
                                {.name = "is", .is_list = true},
                                {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}},
                               {});
};

TEST_F(ColumnConvertTest, ABlockComesBack) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; ++round) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const std::vector<PlainRow> rows = RandomRows(random, specs, random.Between(1, 40));
    const AttributeBlock block = BlockOf(schema, rows);
    Columns columns;
    ToMessages(schema, block, &columns);
    if (random.OneIn(2)) columns.SwapElements(0, columns.size() - 1);
    ASSERT_OK_AND_ASSIGN(const auto back,
                         FromProto(columns, schema, block.rows_count, AttributeLimits()));
    const auto expected = EncodeRowAttributes(schema, block, {});
    const auto encoded = EncodeRowAttributes(schema, back, {});
    for (int64_t row = 0; row < block.rows_count; ++row)
      ASSERT_EQ(encoded->at(row), expected->at(row));
  }
}

TEST_F(ColumnConvertTest, NoColumnIsNoValueAndNoPresenceIsAll) {
  ASSERT_OK_AND_ASSIGN(const auto none, FromProto(Columns(), schema_, 3, AttributeLimits()));
  EXPECT_EQ(none.columns[0].present, std::vector<bool>(3, false));
  ASSERT_OK_AND_ASSIGN(const auto all,
                       FromProto(Of("i", {1, 2, 3}), schema_, 3, AttributeLimits()));
  EXPECT_EQ(all.columns[0].present, std::vector<bool>(3, true));
  EXPECT_EQ(all.columns[1].present, std::vector<bool>(3, false));
}

TEST_F(ColumnConvertTest, NamesAndTypes) {
  EXPECT_THAT(Converted(Of("x", {})),
              Refused("block.attributes[0].attribute", "\"x\" is no attribute of the collection"));
  EXPECT_THAT(FromProto(Of("x", {}), AttributeSchema(), 3, AttributeLimits()),
              Refused("block.attributes[0].attribute", "which declares none"));
  Columns twice = Of("i", {1, 2, 3});
  *twice.Add() = twice[0];
  EXPECT_THAT(Converted(twice), Refused("block.attributes[1].attribute", "another column"));
  EXPECT_THAT(Converted(Of("d", {1, 2, 3})),
              Refused("block.attributes[0].values", "int64 given, \"d\" has type double"));
  EXPECT_THAT(ConvertedOne("attribute: 'i' values { int64_values: [1, 2, 3] bool_values: true }"),
              Refused("block.attributes[0].values", "both int64 and bool"));
}

TEST_F(ColumnConvertTest, CountsMustAgree) {
  EXPECT_THAT(Converted(Of("i", {1, 2})), Refused("block.attributes[0].values",
                                                  "2 given, the rows that have a value make it 3"));
  const std::string two = "attribute: 'i' values { int64_values: [1, 2] } presence: ";
  EXPECT_OK(ConvertedOne(two + "'\\x05'"));
  const std::string presence = "block.attributes[0].presence";
  EXPECT_THAT(ConvertedOne(two + "'\\x0d'"), Refused(presence, "bit 3 is set"));
  EXPECT_THAT(ConvertedOne(two + "'\\x05\\0'"), Refused(presence, "2 bytes for 3 rows, must be 1"));
  EXPECT_THAT(ConvertedOne(two + "''"), Refused(presence, "0 bytes for 3 rows"));
  EXPECT_THAT(ConvertedOne("attribute: 'i' values { int64_values: [1, 2, 3] } list_sizes: 1"),
              Refused("block.attributes[0].list_sizes", "must be none"));

  const std::string lists = "attribute: 'is' values { int64_values: [1, 2] } ";
  EXPECT_THAT(ConvertedOne(lists + "list_sizes: [0, 2]"),
              Refused("block.attributes[0].list_sizes", "2 for 3 rows"));
  EXPECT_OK(ConvertedOne(lists + "list_sizes: [0, 2] presence: '\\x06'"));
  EXPECT_THAT(ConvertedOne(lists + "list_sizes: [1, 2] presence: '\\x06'"),
              Refused("block.attributes[0].values", "2 given, list_sizes make it 3"));
}

TEST_F(ColumnConvertTest, ValuesAndListsAreBounded) {
  EXPECT_THAT(ConvertedOne("attribute: 'd' presence: '\\x06' values { double_values: [inf, nan] }"),
              Refused("block.attributes[0].values[1]", "row 2: NaN"));

  // Regression: a NaN in a list was stored, and the next start reported the row as damaged.
  const std::string lists = "attribute: 'ds' presence: '\\x05' list_sizes: [1, 2] ";
  EXPECT_OK(ConvertedOne(lists + "values { double_values: [-inf, 1, 2] }"));
  EXPECT_THAT(ConvertedOne(lists + "values { double_values: [-inf, 1, nan] }"),
              Refused("block.attributes[0].values[2]", "row 2: NaN"));

  const std::string longest(1024, 'k');
  const std::string keywords =
      "attribute: 'ks' presence: '\\x05' list_sizes: [1, 1] values { "
      "keyword_values: ['" +
      longest + "', '" + longest;
  EXPECT_OK(ConvertedOne(keywords + "'] }"));
  EXPECT_THAT(ConvertedOne(keywords + "k'] }"),
              Refused("block.attributes[0].values[1]", "row 2: 1025 bytes, must be at most 1024"));

  Columns list = Of("is", std::vector<int64_t>(1024));
  list[0].set_presence("\x02");
  list[0].add_list_sizes(1024);
  EXPECT_OK(Converted(list));
  list[0].mutable_values()->add_int64_values(0);
  list[0].set_list_sizes(0, 1025);
  EXPECT_THAT(Converted(list), Refused("block.attributes[0].list_sizes[0]",
                                       "1025 values in row 1, must be at most 1024"));
  list[0].set_list_sizes(0, 0xffffffffu);
  EXPECT_THAT(Converted(list), Refused("block.attributes[0].list_sizes[0]", "4294967295 values"));
}

}  // namespace
}  // namespace nearfield::server

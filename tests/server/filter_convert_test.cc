// Tests of the conversion of filters, declared attributes and attribute columns to and from
// messages.
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

auto RefusedValue(const std::string& message) {
  return StatusIs(kInvalidArgument, StartsWith(message));
}

absl::Status Converted(const pb::Filter& filter) {
  return FromProto(filter, IdType::kUint64, {}).status();
}

TEST(FilterConvertLaws, ATreeComesBack) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 500; ++round) {
    const FilterTree tree = RandomFilter(random, RandomSpecs(random), 7, 20);
    if (tree.conditions.size() > 256) continue;
    pb::Filter message;
    ToMessage(tree, 0, &message);
    pb::Filter parsed;
    ASSERT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
    ASSERT_OK_AND_ASSIGN(const auto back, FromProto(parsed, IdType::kUint64, {}));
    ASSERT_EQ(CanonicalBytes(back), CanonicalBytes(tree));
    pb::Filter again;
    ToMessage(back, 0, &again);
    ASSERT_EQ(again.SerializeAsString(), message.SerializeAsString());
  }
}

TEST(FilterConvertLaws, ATextAndTheEqualMessageAreTheSameFilter) {
  Random random(testing::TestSeed());
  for (int compared = 0; compared < 500;) {
    const std::vector<AttributeSpec> specs = RandomSpecs(random);
    const AttributeSchema schema = *AttributeSchema::Create(specs, {});
    const FilterTree tree = RandomFilter(random, specs, 4, 20);
    if (!FitsAsText(tree)) continue;
    pb::CountRequest by_message;
    ToMessage(tree, 0, by_message.mutable_filter());
    pb::CountRequest by_text;
    by_text.set_filter_text(TextOf(tree));
    const auto canonical = [&](const pb::CountRequest& request) {
      const auto filter = ValidFilter(FilterOf(request), IdType::kUint64, schema);
      EXPECT_OK(filter);
      return filter.ok() ? filter->canonical() : "";
    };
    ASSERT_EQ(canonical(by_text), canonical(by_message)) << by_text.filter_text();
    ++compared;
  }
}

TEST(FilterConvertTest, ARequestHasAFilterOrATextOrNeither) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "x"}}, {});
  pb::CountRequest request;
  EXPECT_FALSE(FilterOf(request).given());
  EXPECT_EQ(FilterMemoryMax(FilterOf(request)), 0);
  request.set_filter_text("exists(x)");
  EXPECT_OK(ValidFilter(FilterOf(request), IdType::kUint64, schema));
  EXPECT_EQ(ToSent(FilterOf(request)).text, "exists(x)");
  EXPECT_GT(FilterMemoryMax(FilterOf(request)), 0);
  request.set_filter_text("");
  EXPECT_TRUE(FilterOf(request).given());
  EXPECT_THAT(ValidFilter(FilterOf(request), IdType::kUint64, schema),
              Refused("filter_text", "column 1: a filter is expected"));
  request.mutable_filter()->mutable_exists()->set_attribute("x");
  const auto both = ValidFilter(FilterOf(request), IdType::kUint64, schema);
  EXPECT_THAT(both, Refused("filter_text", "given with filter, must be one of the two"));
  EXPECT_EQ(ArgumentFactsOf(both.status()).field, "filter_text");
  request.clear_filter_text();
  EXPECT_OK(ValidFilter(FilterOf(request), IdType::kUint64, schema));
  EXPECT_EQ(ToSent(FilterOf(request)).message, request.filter().SerializeAsString());
}

TEST(FilterConvertTest, NothingSetIsRefusedWithItsPath) {
  EXPECT_THAT(Converted(FromText("")), Refused("filter", "no condition is set"));
  const auto second = [](const std::string& filter) {
    return Converted(FromText("and_ { filters { exists {} } filters { " + filter + " } }"));
  };
  EXPECT_THAT(second("not_ {}"), Refused("filter.and[1].not", "no condition is set"));
  EXPECT_THAT(second("comparison {}"), Refused("filter.and[1].comparison.op", "0, must be EQUAL"));
  EXPECT_THAT(second("comparison { op: 99 }"),
              Refused("filter.and[1].comparison.op", "99, must be EQUAL"));
  const std::string less = "comparison { op: COMPARISON_OPERATOR_LESS ";
  EXPECT_THAT(second(less + "}"),
              Refused("filter.and[1].comparison.value", "none of its members is set"));
  EXPECT_OK(second(less + "value { bool_value: false } }"));
  EXPECT_THAT(second(less + "value { bool_value: false } } } filters { in_ { values { "
                            "int64_values: 1 keyword_values: 'a' } }"),
              Refused("filter.and[2].in.values", "both int64 and keyword"));
}

TEST(FilterConvertTest, IdsAreOfTheCollectionsType) {
  const auto of_strings = [](const std::string& filter) {
    return FromProto(pb::Filter(FromText(filter)), IdType::kString, {});
  };
  EXPECT_THAT(Converted(FromText("has_id {}")),
              RefusedValue("filter.has_id = 0 ids, must be 1 .. 4096"));
  EXPECT_THAT(Converted(FromText("has_id { texts: 'a' }")),
              Refused("filter.has_id.texts", "ids of type uint64"));
  EXPECT_OK(of_strings("has_id { texts: 'a' }"));
  EXPECT_THAT(of_strings("has_id { texts: ['a', ''] }"),
              Refused("filter.has_id.texts[1]", "must be 1 .. 512"));
}

// Messages that could exhaust the server: many levels, wide filters, long lists.
TEST(FilterConvertTest, BombsAreRefusedBeforeTheyAreTaken) {
  pb::Filter deep;
  pb::Filter* last = &deep;
  for (int level = 1; level < 8; ++level) last = last->mutable_not_();
  last->mutable_exists()->set_attribute("x");
  EXPECT_OK(Converted(deep));
  last->mutable_not_()->mutable_exists()->set_attribute("x");
  EXPECT_THAT(Converted(deep),
              Refused("filter.not.not.not.not.not.not.not.not", "must be at most 8"));
  // Far deeper than recursion allows. The message itself is built and freed without recursion.
  constexpr int kLevels = 50'000;
  std::vector<pb::Filter*> levels = {new pb::Filter};
  for (int level = 1; level < kLevels; ++level) {
    auto* const parent = new pb::Filter;
    parent->set_allocated_not_(levels.back());
    levels.push_back(parent);
  }
  EXPECT_THAT(Converted(*levels.back()),
              Refused("filter.not.not.not.not.not.not.not.not", "levels"));
  for (size_t level = levels.size(); level-- > 1;) static_cast<void>(levels[level]->release_not_());
  for (pb::Filter* each : levels) delete each;

  pb::Filter wide;
  for (int i = 0; i < 255; ++i) wide.mutable_or_()->add_filters()->mutable_exists();
  EXPECT_OK(Converted(wide));
  wide.mutable_or_()->add_filters()->mutable_exists();
  EXPECT_THAT(Converted(wide), Refused("filter.or", "must be at most 256"));
  pb::Filter nested;  // more conditions through levels than in any list
  for (int i = 0; i < 100; ++i) {
    auto* const inner = nested.mutable_and_()->add_filters()->mutable_not_()->mutable_or_();
    inner->add_filters()->mutable_exists();
  }
  EXPECT_THAT(Converted(nested), FailsWith(kInvalidArgument, "must be at most 256"));

  pb::Filter list;
  for (int i = 0; i < 4096; ++i) list.mutable_in_()->mutable_values()->add_int64_values(i);
  EXPECT_OK(Converted(list));
  list.mutable_in_()->mutable_values()->add_int64_values(0);
  EXPECT_THAT(Converted(list), Refused("filter.in", "4097 values, must be 1 .. 4096"));
  pb::Filter ids;
  for (uint64_t i = 0; i < 4097; ++i) ids.mutable_has_id()->add_numbers(i);
  EXPECT_THAT(Converted(ids), RefusedValue("filter.has_id = 4097 ids, must be 1 .. 4096"));
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

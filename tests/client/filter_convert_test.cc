// Tests of the conversion of filters and attributes to messages.
#include "client/cpp/filter_convert.h"

#include <google/protobuf/text_format.h>

#include "tests/client/prelude.h"

namespace nearfield::client {
namespace {

using std::chrono::microseconds;

void ExpectProto(const Filter& filter, const std::string& text) {
  v1::Filter wanted;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wanted)) << text;
  v1::Filter proto;
  ASSERT_OK(ToProto(filter, &proto));
  EXPECT_EQ(proto.ShortDebugString(), wanted.ShortDebugString());
}

TEST(FilterConvert, EachConditionHasItsMessage) {
  ExpectProto(
      Filter::Equal("a", 1),
      "comparison { attribute: 'a' op: COMPARISON_OPERATOR_EQUAL value { int64_value: 1 } }");
  ExpectProto(Filter::NotEqual("a", 1.5),
              "comparison { attribute: 'a' op: COMPARISON_OPERATOR_NOT_EQUAL "
              "value { double_value: 1.5 } }");
  ExpectProto(
      Filter::Less("a", "x"),
      "comparison { attribute: 'a' op: COMPARISON_OPERATOR_LESS value { keyword_value: 'x' } }");
  ExpectProto(Filter::LessEqual("a", Timestamp(microseconds(-7))),
              "comparison { attribute: 'a' op: COMPARISON_OPERATOR_LESS_EQUAL "
              "value { timestamp_us_value: -7 } }");
  ExpectProto(
      Filter::Greater("a", ""),
      "comparison { attribute: 'a' op: COMPARISON_OPERATOR_GREATER value { keyword_value: '' } }");
  ExpectProto(Filter::GreaterEqual("a", false),
              "comparison { attribute: 'a' op: COMPARISON_OPERATOR_GREATER_EQUAL "
              "value { bool_value: false } }");
  ExpectProto(Filter::In("a", {1, -2}), "in_ { attribute: 'a' values { int64_values: [1, -2] } }");
  ExpectProto(Filter::In("a", {1.5, 0.0}),
              "in_ { attribute: 'a' values { double_values: [1.5, 0] } }");
  ExpectProto(Filter::ListAny("a", {true, false}),
              "list_any { attribute: 'a' values { bool_values: [true, false] } }");
  ExpectProto(Filter::ListAny("a", {"x", "y"}),
              "list_any { attribute: 'a' values { keyword_values: ['x', 'y'] } }");
  ExpectProto(Filter::ListAll("a", {Timestamp(microseconds(5))}),
              "list_all { attribute: 'a' values { timestamp_us_values: 5 } }");
  ExpectProto(Filter::Exists("a"), "exists { attribute: 'a' }");
  ExpectProto(Filter::HasId(std::vector<uint64_t>{1, 2}), "has_id { numbers: [1, 2] }");
  ExpectProto(Filter::HasId(std::vector<std::string>{"x"}), "has_id { texts: 'x' }");
  ExpectProto(Filter::Or({Filter::Exists("a"), Filter::Not(Filter::And({Filter::Exists("b")}))}),
              "or_ { filters { exists { attribute: 'a' } } "
              "filters { not_ { and_ { filters { exists { attribute: 'b' } } } } } }");
  // Empty operands are set too, so that the server can refuse them with their path.
  ExpectProto(Filter::And({}), "and_ {}");
  ExpectProto(Filter::In("a", {}), "in_ { attribute: 'a' values {} }");
  ExpectProto(Filter::HasId(std::vector<uint64_t>{}), "has_id {}");
}

TEST(FilterConvert, WhatCannotBeSentIsNamedByItsPath) {
  v1::Filter proto;
  EXPECT_THAT(
      ToProto(Filter::And({Filter::Exists("a"), Filter::In("a", {1, "x"})}), &proto),
      StatusIs(kInvalidArgument, "filter.and[1].in.values[1]: a keyword among int64 values"));
  EXPECT_THAT(
      ToProto(Filter::Not(Filter::Equal("a", "\xff")), &proto),
      StatusIs(kInvalidArgument, HasSubstr("filter.not.comparison.value: \"\\xff\" is not UTF-8")));
  EXPECT_THAT(ToProto(Filter::Or({Filter::Less("\xff", 1)}), &proto),
              StatusIs(kInvalidArgument, HasSubstr("filter.or[0].comparison.attribute: ")));
  EXPECT_THAT(ToProto(Filter::ListAll("a", {"b", "\xff"}), &proto),
              StatusIs(kInvalidArgument, HasSubstr("filter.list_all.values[1]: ")));
  EXPECT_THAT(ToProto(Filter::Exists("\xff"), &proto),
              StatusIs(kInvalidArgument, HasSubstr("filter.exists.attribute: ")));
  EXPECT_THAT(ToProto(Filter::HasId(std::vector<std::string>{"a", "\xff"}), &proto),
              StatusIs(kInvalidArgument, HasSubstr("filter.has_id[1]: ")));
  Filter deep = Filter::Exists("a");
  for (size_t level = 1; level < kFilterLevelsMax; ++level) deep = Filter::Not(deep);
  EXPECT_OK(ToProto(deep, &proto));
  EXPECT_THAT(ToProto(Filter::Not(deep), &proto),
              StatusIs(kInvalidArgument, HasSubstr("level 9, a filter has at most 8")));
}

TEST(FilterConvert, AttributeTypesOfNewerServersAreUnknown) {
  v1::AttributeSpec proto;
  ASSERT_OK(ToProto(AttributeSpec{"tags", AttributeType::kKeyword, true}, &proto));
  EXPECT_EQ(proto.ShortDebugString(), "name: \"tags\" type: ATTRIBUTE_TYPE_KEYWORD is_list: true");
  EXPECT_EQ(FromProto(&proto), (AttributeSpec{"tags", AttributeType::kKeyword, true}));
  v1::AttributeSpec newer;
  newer.set_name("x");
  newer.set_type(static_cast<v1::AttributeType>(99));
  EXPECT_EQ(FromProto(&newer).type, AttributeType::kUnknown);
  EXPECT_FALSE(ToProto(AttributeSpec{"\xff", AttributeType::kBool}, &newer).ok());
}

}  // namespace
}  // namespace nearfield::client

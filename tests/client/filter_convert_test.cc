// Tests of the conversion of filters and attributes to messages.
#include "client/cpp/filter_convert.h"

#include <google/protobuf/text_format.h>

#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/prelude.h"

namespace nearfield::client {
namespace {

using std::chrono::microseconds;

void ExpectSent(const Filter& filter, const std::string& text) {
  v1::CountRequest wanted;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wanted)) << text;
  v1::CountRequest request;
  ASSERT_OK(SetFilter(filter, &request));
  EXPECT_EQ(request.ShortDebugString(), wanted.ShortDebugString());
}

TEST(FilterConvert, EachConditionIsATextWithArguments) {
  const auto of = [](const std::string& values) {
    return " filter_args { values { " + values + " } }";
  };
  ExpectSent(Filter::Equal("a", 1), "filter_text: '`a` == $1'" + of("int64_values: 1"));
  ExpectSent(Filter::NotEqual("a", 1.5), "filter_text: '`a` != $1'" + of("double_values: 1.5"));
  ExpectSent(Filter::Less("a", "x"), "filter_text: '`a` < $1'" + of("keyword_values: 'x'"));
  ExpectSent(Filter::LessEqual("a", Timestamp(microseconds(-7))),
             "filter_text: '`a` <= $1'" + of("timestamp_us_values: -7"));
  ExpectSent(Filter::Greater("a", ""), "filter_text: '`a` > $1'" + of("keyword_values: ''"));
  ExpectSent(Filter::GreaterEqual("a", false),
             "filter_text: '`a` >= $1'" + of("bool_values: false"));
  ExpectSent(Filter::In("a", {1, -2}), "filter_text: '`a` in $1'" + of("int64_values: [1, -2]"));
  ExpectSent(Filter::ListAny("a", {"x", "y"}),
             "filter_text: '`a` any $1'" + of("keyword_values: ['x', 'y']"));
  ExpectSent(Filter::ListAll("a", {Timestamp(microseconds(5))}),
             "filter_text: '`a` all $1'" + of("timestamp_us_values: 5"));
  ExpectSent(Filter::In("a", {}), "filter_text: '`a` in $1'" + of(""));
  ExpectSent(Filter::Exists("a`b"), "filter_text: 'exists(`a``b`)'");
  ExpectSent(Filter::HasId(std::vector<uint64_t>{1, 2}),
             "filter_text: 'id in $1' filter_args { ids { numbers: [1, 2] } }");
  ExpectSent(Filter::HasId(std::vector<std::string>{}),
             "filter_text: 'id in $1' filter_args { ids {} }");
}

TEST(FilterConvert, CombinedFiltersNumberTheirArgumentsAnew) {
  const Filter text("b == '$1' or `$2` in $2 and c < $1", {7, {"x", "y"}});
  const Filter both = Filter::And({Filter::Equal("a", true), Filter::Not(text)});
  EXPECT_EQ(both.text(), "(`a` == $1) and (not (b == '$1' or `$2` in $3 and c < $2))");
  EXPECT_EQ(both.arguments(), (std::vector<FilterArgument>{true, 7, {"x", "y"}}));
  EXPECT_EQ(
      Filter::Or({text, both}).text(),
      Filter::Or({text, both, both}).text().substr(0, Filter::Or({text, both}).text().size()));
  EXPECT_EQ(Filter::Or({Filter("a == 'it\\'s $1'"), Filter::Less("b", 1)}).text(),
            "(a == 'it\\'s $1') or (`b` < $1)");
  EXPECT_EQ(Filter::And({}).text(), "") << "which the server refuses";
}

TEST(FilterConvert, ARecordedArgumentComesBack) {
  for (const FilterArgument& argument :
       {FilterArgument(1), FilterArgument({1.5, -0.5}), FilterArgument({true, false}),
        FilterArgument({"x", ""}), FilterArgument(Timestamp(microseconds(-7))),
        FilterArgument(IdColumn(std::vector<uint64_t>{1, 2})),
        FilterArgument(IdColumn(std::vector<std::string>{"x"}))}) {
    v1::FilterArgument proto;
    ASSERT_OK(ToProto("field", argument, &proto));
    ASSERT_OK_AND_ASSIGN(const auto back, FilterArgument::Parse(proto.SerializeAsString()));
    EXPECT_EQ(back, argument);
  }
  EXPECT_THAT(FilterArgument::Parse("\x0f"), StatusIs(kInvalidArgument));
}

TEST(FilterConvert, WhatCannotBeSentIsNamed) {
  v1::CountRequest request;
  const auto sent = [&](const Filter& filter) { return SetFilter(filter, &request); };
  EXPECT_THAT(sent(Filter::And({Filter::Equal("a", 1), Filter::In("a", {1, "x"})})),
              StatusIs(kInvalidArgument, "filter_args[1][1]: a keyword among int64 values"));
  request.Clear();
  EXPECT_THAT(sent(Filter::Not(Filter::Equal("a", "\xff"))),
              StatusIs(kInvalidArgument, HasSubstr("filter_args[0][0]: \"\\xff\" is not UTF-8")));
  EXPECT_THAT(sent(Filter::Or({Filter::Less("\xff", 1)})),
              StatusIs(kInvalidArgument, HasSubstr("filter_text: ")));
  request.Clear();
  EXPECT_THAT(sent(Filter::HasId(std::vector<std::string>{"a", "\xff"})),
              StatusIs(kInvalidArgument, HasSubstr("filter_args[0][1]: ")));
}

TEST(FilterConvert, AttributeTypesOfNewerServersAreUnknown) {
  v1::AttributeSpec proto;
  ASSERT_OK(ToProto(AttributeSpec{"tags", AttributeType::kKeyword, true}, &proto));
  EXPECT_EQ(proto.ShortDebugString(), "name: \"tags\" type: ATTRIBUTE_TYPE_KEYWORD is_list: true");
  EXPECT_EQ(FromProto(&proto), (AttributeSpec{"tags", AttributeType::kKeyword, true}));
  ASSERT_OK(ToProto(AttributeSpec{"until", AttributeType::kTimestamp, false, true}, &proto));
  EXPECT_TRUE(proto.expires());
  EXPECT_TRUE(FromProto(&proto).expires);
  v1::AttributeSpec newer;
  newer.set_name("x");
  newer.set_type(static_cast<v1::AttributeType>(99));
  EXPECT_EQ(FromProto(&newer).type, AttributeType::kUnknown);
  EXPECT_FALSE(ToProto(AttributeSpec{"\xff", AttributeType::kBool}, &newer).ok());
}

}  // namespace
}  // namespace nearfield::client

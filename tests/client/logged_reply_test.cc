// Tests of digests and logs of replies: lines are read back to the bit, and damage is detected.
#include "client/cli/logged_reply.h"

#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "client/formats/json_fields.h"
#include "nearfield/client/digest.h"
#include "tests/client/prelude.h"

namespace nearfield::client {
namespace {

Neighbors Numbers() {
  return {.ids = std::vector<uint64_t>{7, UINT64_MAX}, .scores = {INFINITY, -1.5f}};
}
Neighbors Texts() {
  return {.ids = std::vector<std::string>{"a", "\xc3\xa4"}, .scores = {0.0f, -INFINITY}};
}

// The constants were computed in Python with hashlib and struct.
TEST(DigestTest, EqualsThatOfAnotherLanguage) {
  EXPECT_EQ(ToHex(ResultDigest({})),
            "6dc400999004409bfbbca5b52187cb7e75a1b8894fca2d2a7c86a43268d93210");
  EXPECT_EQ(ToHex(ResultDigest(std::vector<Neighbors>{Numbers()})),
            "62aceab91434413c6b2e63d77cc6c775c1fed14346b066f5c6ee943d4a7d0f7e");
  EXPECT_EQ(ToHex(ResultDigest(std::vector<Neighbors>{Texts(), Neighbors()})),
            "8bfdcd3b9d3c6b1f94ddc171e9b58bd88685f4551a1256bb475dc74f295c3667");
}

TEST(DigestTest, GroupsEqualThatOfAnotherLanguage) {
  Neighbors neighbors = {.ids = std::vector<uint64_t>{5, 7}, .scores = {0.5f, -1}};
  const auto digest = [&neighbors](AttributeValues values) {
    neighbors.groups = Groups{.values = std::move(values), .rows_counts = {1, 1}};
    return ToHex(ResultDigest({&neighbors, 1}));
  };
  EXPECT_EQ(digest(std::vector<std::string>{"\xc3\xa4", "b"}),
            "0a0c94ed246a05dfbf611dfd4719bab8f3358a89a2153fba61d8cb6b4405a991");
  EXPECT_EQ(digest(std::vector<int64_t>{-3, int64_t{1} << 40}),
            "0a43d109a4f10f9452411f2f74e378785b89ab7ee2cccb35c8b02866c790f3ae");
  EXPECT_EQ(digest(std::vector<Timestamp>{Timestamp(std::chrono::microseconds(-3)),
                                          Timestamp(std::chrono::microseconds(int64_t{1} << 40))}),
            "0a43d109a4f10f9452411f2f74e378785b89ab7ee2cccb35c8b02866c790f3ae");
  EXPECT_EQ(digest(std::vector<double>{0.0, -1.5}),
            "7a31a6dce7602273a59ea42ae835533fa603a7bebb6efdd611005fea58e5662e");
  EXPECT_EQ(digest(std::vector<bool>{false, true}),
            "e7f0371f760e2a95c7655ad4f44489bec19c43486b69516d60cdf61f1f707805");
}

TEST(LoggedReplyTest, ComesBackToTheBit) {
  const std::string bytes("\0\x3c\xff\x7b", 4);
  for (const Neighbors& neighbors : {Numbers(), Texts(), Neighbors()}) {
    for (const Query& query : {Query(EncodedQuery{.dtype = DataType::kFloat16, .bytes = bytes}),
                               Query(Id("row \"7\""))}) {
      const LoggedReply reply = {.collection = "docs",
                                 .epoch = UINT64_MAX,
                                 .k = 12,
                                 .query = Own(query),
                                 .neighbors = neighbors};
      LoggedReply narrowed = reply;
      narrowed.filter = "language == \"\xc3\xa4\"";
      narrowed.score_threshold = -0.1f;
      narrowed.terms = std::string("\0\xff", 2);
      ASSERT_OK_AND_ASSIGN(const auto narrowed_read, ParseLoggedReply(ToJsonLine(narrowed)));
      EXPECT_EQ(narrowed_read.filter, narrowed.filter);
      EXPECT_EQ(narrowed_read.score_threshold, narrowed.score_threshold);
      EXPECT_EQ(narrowed_read.terms, narrowed.terms);
      const std::string line = ToJsonLine(reply);
      EXPECT_EQ(line.find('\n'), std::string::npos);
      ASSERT_OK_AND_ASSIGN(const auto read, ParseLoggedReply(line));
      EXPECT_EQ(read.collection, "docs");
      EXPECT_EQ(read.epoch, UINT64_MAX);
      EXPECT_EQ(read.k, 12u);
      EXPECT_EQ(read.neighbors.scores, neighbors.scores);
      EXPECT_EQ(Count(read.neighbors.ids), Count(neighbors.ids));
      EXPECT_EQ(ToJsonLine(read), line);
    }
  }
}

TEST(LoggedReplyTest, AChangedAnswerDoesNotFitItsDigest) {
  const std::string line = ToJsonLine(
      {.collection = "docs", .query = Own(Query(Id(uint64_t{1}))), .neighbors = Numbers()});
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = line;
    other.replace(other.find(from), from.size(), to);
    return ParseLoggedReply(other).status();
  };
  EXPECT_THAT(changed("[7,", "[8,"), StatusIs(kDataLoss));
  EXPECT_THAT(changed("bfc00000", "bfc00001"), StatusIs(kDataLoss));
  EXPECT_THAT(changed("\"62ac", "\"62ad"), StatusIs(kDataLoss));
  EXPECT_THAT(changed("\"bfc00000\"", "\"bfc0000\""),
              StatusIs(kInvalidArgument, HasSubstr("score_bits")));
  EXPECT_THAT(changed(",\"bfc00000\"", ""),
              StatusIs(kInvalidArgument, HasSubstr("2 ids and 1 scores")));
  EXPECT_THAT(changed("\"epoch\":0", "\"epoch\":-1"),
              StatusIs(kInvalidArgument, HasSubstr("epoch")));
  // Regression: an unknown member, such as a misspelled filter, was dropped: another search was
  // verified.
  EXPECT_THAT(changed("\"k\":", "\"fliter\":\"\",\"k\":"),
              StatusIs(kInvalidArgument, HasSubstr("\"fliter\": is not known")));
  EXPECT_THAT(changed("\"k\"", "\"epoch\""),
              StatusIs(kInvalidArgument, HasSubstr("\"epoch\": twice")));
  EXPECT_THAT(changed("{\"row_id\":1}", "{\"dtype\":\"int4\",\"data\":\"\"}"),
              StatusIs(kInvalidArgument, HasSubstr("dtype")));
  EXPECT_THAT(ParseLoggedReply("[]"), StatusIs(kInvalidArgument));
}

}  // namespace
}  // namespace nearfield::client

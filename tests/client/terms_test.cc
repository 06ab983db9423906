// Tests of row terms in the library and the command: the fields of the requests, what comes back,
// and the mistakes that the command explains.
#include <google/protobuf/text_format.h>

#include <chrono>
#include <string>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

const RowTerms kTerms = {
    .score_weight = 0.5,
    .terms = {
        {LinearTerm{.attribute = "a", .origin = 1, .scale = 2, .missing = 3}, -4},
        {ClampedTerm{.attribute = "b", .origin = 5, .scale = 6, .low = 7, .high = 8}, 9},
        {HalfLifeTerm{.attribute = "c", .origin = 10, .half_life = 11, .offset = 12}},
        {FilterTerm{Filter("year in $1 and id in $2",
                           {FilterArgument::Values{1, 2}, IdColumn(std::vector<uint64_t>{7})})},
         13},
    }};

TEST(RowTermsTest, ComeBackFromTheirMessage) {
  ASSERT_OK_AND_ASSIGN(const std::string message, SerializeTerms(kTerms));
  v1::RowTerms proto;
  ASSERT_TRUE(proto.ParseFromString(message));
  EXPECT_EQ(proto.terms(1).weight(), 9);
  EXPECT_EQ(proto.terms(1).attribute(), "b");
  EXPECT_EQ(proto.terms(1).clamped().high(), 8);
  EXPECT_EQ(proto.terms(3).filter().filter_args(1).ids().numbers(0), 7u);
  ASSERT_OK_AND_ASSIGN(const RowTerms read, ParseTerms(message));
  EXPECT_EQ(read, kTerms);
  EXPECT_EQ(*ParseTerms(""), RowTerms());
  EXPECT_THAT(ParseTerms("\xff").status(), StatusIs(kInvalidArgument, "not a RowTerms message"));
  const RowTerms wrong = {.terms = {{LinearTerm{.attribute = "a"}}, {FilterTerm{Filter("\xff")}}}};
  EXPECT_THAT(SerializeTerms(wrong).status(),
              StatusIs(kInvalidArgument, HasSubstr("terms.terms[1].filter.filter_text")));
}

class TermsCommandTest : public CliTest {
 protected:
  void SetUp() override {
    const std::string rows = folder_.Write(
        "notes.jsonl",
        "{\"id\":1,\"vector\":[1,0],\"importance\":3,\"written\":\"2024-05-17T00:00:00Z\"}\n"
        "{\"id\":2,\"vector\":[0,1],\"importance\":0.5,\"written\":\"2024-05-27T00:00:00Z\"}\n"
        "{\"id\":3,\"vector\":[1,1]}\n");
    const Outcome uploaded =
        Run({"upload", "notes", rows, "--create", "--metric", "dot", "--attribute",
             "importance:double", "--attribute", "written:timestamp"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
  }
  v1::RowTerms Sent() { return server_.last<v1::SearchRequest>("Search").terms(); }
};

TEST_F(TermsCommandTest, TermsAreSentAndThePartsAreShown) {
  const Arguments search = {"search",
                            "notes",
                            "--id",
                            "3",
                            "--parts",
                            "--score-weight",
                            "2",
                            "--term",
                            " -0.5 * linear( importance , scale=2,missing=-1 ) ",
                            "--term",
                            "half_life(written, half_life=10d, origin=\"2024-05-17\", offset=0.5h)",
                            "--term",
                            "0.25*is(importance > 1 and (id in (1, 2)))",
                            "--term",
                            "clamped(importance, origin=1e3, low=-1, high=0.5)"};
  EXPECT_THAT(Run(Plus(search, {"--verify", "--json"})),
              Prints(AllOf(HasSubstr("\"parts\":{\"score\":1,\"term_sum\":"),
                           HasSubstr("\"verified\":true"))));
  v1::RowTerms wanted;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "score_weight: 2 "
      "terms { attribute: 'importance' weight: -0.5 missing: -1 linear { scale: 2 } } "
      "terms { attribute: 'written' weight: 1 missing: 0 "
      "        half_life { origin: 1715904000000000 half_life: 864000000000 offset: 1800000000 } } "
      "terms { weight: 0.25 filter { filter_text: 'importance > 1 and (id in (1, 2))' } } "
      "terms { attribute: 'importance' weight: 1 missing: 0 "
      "        clamped { origin: 1000 scale: 1 low: -1 high: 0.5 } }",
      &wanted));
  EXPECT_EQ(Sent().DebugString(), wanted.DebugString());
  EXPECT_THAT(Run(search), Prints(HasSubstr("of vectors  ")));
  EXPECT_THAT(Run({"facets", "notes", "importance", "--id", "3", "--score-threshold", "3.5",
                   "--term", "linear(importance)", "--json"}),
              Prints(HasSubstr("\"rows_count\":1")));
  EXPECT_THAT(Run({"verify", "notes", "--sample", "2", "--term", "linear(importance)"}),
              Prints(HasSubstr("verified: 2 of 2")));
}

TEST_F(TermsCommandTest, TheWordNowIsTheTimeOfTheCommand) {
  const auto now = [] {
    return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
  };
  const double before = now();
  EXPECT_THAT(Run({"search", "notes", "--id", "3", "--term",
                   "half_life(written, half_life=1h, origin=now)"}),
              Prints(HasSubstr("2 neighbors")));
  EXPECT_GE(Sent().terms(0).half_life().origin(), before);
  EXPECT_LE(Sent().terms(0).half_life().origin(), now());
}

TEST_F(TermsCommandTest, ALogOfRepliesKeepsTheTerms) {
  const std::string log = folder_.path() + "/replies.jsonl";
  EXPECT_THAT(
      Run({"search", "notes", "--id", "3", "--term", "2*linear(importance)", "--record", log}),
      Prints(HasSubstr("2 neighbors")));
  EXPECT_THAT(Run({"verify", "--replies", log}), Prints(HasSubstr("verified: 1 of 1")));
}

TEST_F(TermsCommandTest, MistakesAreExplained) {
  const auto fails = [&](const std::string& term, const std::string& words) {
    EXPECT_THAT(Run({"search", "notes", "--id", "3", "--term", term}), Fails(2, HasSubstr(words)));
  };
  fails("importance", "importance: must be FORM(...) or WEIGHT * FORM(...)");
  fails("linear(importance", "must be FORM(...)");
  fails("x * linear(importance)", "\"x\" must be a number");
  fails("square(importance)", "\"square\" is none of linear, clamped, half_life and is");
  fails("linear()", "the name of an attribute must come first");
  fails("linear(importance, 2)", "\"2\" is no parameter, as in scale=0.1");
  fails("linear(importance, scale=1d)", "scale=1d must be a number");
  fails("linear(importance, missing=now)", "missing=now must be a number");
  fails("half_life(written, half_life=now, origin=now)",
        "half_life=now must be a number or a span");
  fails("linear(written, origin=x)", "origin=x must be a number, now, or a time: ");
  fails("linear(written, origin=2024-05-17T10:00:00)", "origin=2024-05-17T10:00:00 must be");
  fails("clamped(importance, low=1)", "clamped needs high=");
  fails("half_life(written, origin=now)", "half_life needs half_life=");
  fails("half_life(written, half_life=1d)", "half_life needs origin=");
  fails("linear(importance, scale=1, scale=2)", "scale is given twice");
  fails("linear(importance, half_life=2)", "linear has no parameter half_life");
  EXPECT_THAT(Run({"search", "notes", "--id", "3", "--term", "linear(none)"}),
              Fails(3, HasSubstr("terms.terms[0].attribute: \"none\" is no attribute")));
}

}  // namespace
}  // namespace nearfield::client

// Tests of searches with row terms over rows with known numbers: forms, pages, groups, refusals,
// memory, and records of wrong answers.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/server/pages_fixture.h"
#include "tests/server/scored_rows.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

// A small collection with known numbers.
class FewTermsTest : public PagesServiceTest {
 protected:
  // Serves the rows 0 .. 5, whose vectors are 1, with values of each type.
  void ServeSix() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 1 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'word' type: ATTRIBUTE_TYPE_KEYWORD }
        attributes { name: 'level' type: ATTRIBUTE_TYPE_INT64 }
        attributes { name: 'tags' type: ATTRIBUTE_TYPE_INT64 is_list: true }
        attributes { name: 'written' type: ATTRIBUTE_TYPE_TIMESTAMP })")));
    pb::UploadRequest request = FromText(R"(block {
        ids { numbers: [0, 1, 2, 3, 4, 5] }
        attributes { attribute: 'word' values { keyword_values: ['a', 'b', 'a', 'b', 'a', 'b'] } }
        attributes { attribute: 'level' presence: '\037' values { int64_values: [1, 2, 3, 4, 5] } }
        attributes { attribute: 'written'
                     values { timestamp_us_values: [0, 10, 20, 30, 40, 50] } } })");
    request.mutable_block()->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    request.mutable_block()->mutable_vectors()->set_data(Bytes({1, 1, 1, 1, 1, 1}));
    ASSERT_OK(Send({Begin("c", 6), request, Commit()}));
  }
  static pb::SearchRequest With(const std::string& terms, uint32_t k = 0) {
    pb::SearchRequest request = For(1, k);
    *request.mutable_terms() = FromText(terms);
    return request;
  }
  std::vector<Scored> Found(const pb::SearchRequest& request) {
    return RowsOf(CallOk(&Retrieval::Search, request).results(0));
  }
  static std::vector<uint64_t> IdsOf(const std::vector<Scored>& rows) {
    std::vector<uint64_t> ids;
    for (const Scored& row : rows) ids.push_back(row.id);
    return ids;
  }
  void AwaitNoBytes() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
  }
  void SetLevels(const std::vector<int64_t>& levels) {
    pb::UpdateRequest request = FromText("collection: 'c' ids { numbers: [0, 1, 2, 3, 4, 5] }");
    pb::AttributeColumn& column = *request.add_attributes()->mutable_column();
    column.set_attribute("level");
    for (const int64_t level : levels) column.mutable_values()->add_int64_values(level);
    ASSERT_OK(Call(&Ingest::Update, request));
  }
};

constexpr char kByLevel[] = "terms { attribute: 'level' missing: 10 linear {} }";

TEST_F(FewTermsTest, EachFormIsWhatTheContractSays) {
  ServeSix();
  EXPECT_EQ(Found(With(kByLevel)),
            (std::vector<Scored>{{11, 5}, {6, 4}, {5, 3}, {4, 2}, {3, 1}, {2, 0}}));
  EXPECT_EQ(Found(With("score_weight: 2 terms { attribute: 'level' weight: -1 "
                       "clamped { origin: 1 scale: 2 low: 1 high: 4 } }")),
            (std::vector<Scored>{{2, 5}, {1, 0}, {0, 1}, {-2, 2}, {-2, 3}, {-2, 4}}));
  EXPECT_EQ(Found(With("terms { attribute: 'written' "
                       "half_life { origin: 50 half_life: 10 offset: 10 } }")),
            (std::vector<Scored>{{2, 4}, {2, 5}, {1.5, 3}, {1.25, 2}, {1.125, 1}, {1.0625, 0}}));
  EXPECT_EQ(Found(With("terms { weight: 3 filter { filter_text: 'word == $1 and level > 2' "
                       "filter_args { values { keyword_values: 'a' } } } }",
                       3)),
            (std::vector<Scored>{{4, 2}, {4, 4}, {1, 0}}));
}

TEST_F(FewTermsTest, APageReadsTheNumbersOfItsEpoch) {
  ServeSix();
  pb::SearchRequest request = With(kByLevel, 2);
  request.set_with_cursor(true);
  auto first = CallOk(&Retrieval::Search, request);
  ASSERT_THAT(IdsOf(RowsOf(first.results(0))), ElementsAre(5, 4));
  SetLevels({9, 8, 7, 6, 5, 4});
  EXPECT_THAT(IdsOf(Found(With(kByLevel))), ElementsAre(0, 1, 2, 3, 4, 5));
  request.set_cursor(first.results(0).next_cursor());
  EXPECT_EQ(Found(request), (std::vector<Scored>{{5, 3}, {4, 2}}));
  pb::SearchRequest earlier = With(kByLevel);
  earlier.set_at_epoch(first.epoch());
  EXPECT_THAT(IdsOf(Found(earlier)), ElementsAre(5, 4, 3, 2, 1, 0));
}

TEST_F(FewTermsTest, ACursorBelongsToItsTerms) {
  ServeSix();
  pb::SearchRequest request = With(kByLevel, 2);
  request.set_cursor(CursorBehind(request));
  for (const char* const other :
       {"", "terms { attribute: 'level' missing: 9 linear {} }",
        "terms { attribute: 'written' missing: 10 linear {} }", "score_weight: 2",
        "terms { attribute: 'level' missing: 10 linear { origin: 1 } }",
        "terms { filter { filter_text: 'level > 1' } }"}) {
    SCOPED_TRACE(other);
    pb::SearchRequest another = With(other);
    another.set_cursor(request.cursor());
    EXPECT_THAT(Search(another),
                RefusedWith(kInvalidArgument, "cursor: of another search", "terms"));
  }
  request.clear_terms();
  EXPECT_THAT(Search(request), RefusedWith(kInvalidArgument, "cursor: of another search"));
  pb::SearchRequest boosted = With("terms { filter { filter_text: 'level > 1' } }", 1);
  boosted.set_cursor(CursorBehind(boosted));
  EXPECT_OK(Search(boosted));
  *boosted.mutable_terms() = FromText("terms { filter { filter_text: 'level > 2' } }");
  EXPECT_THAT(Search(boosted), RefusedWith(kInvalidArgument, "cursor: of another search"));
}

TEST_F(FewTermsTest, GroupsAreOrderedByFinalScores) {
  ServeSix();
  pb::SearchRequest request = With(kByLevel, 2);
  request.set_group_by("word");
  request.set_group_rows(2);
  request.set_with_parts(true);
  request.set_verify(true);
  const pb::QueryResult result = CallOk(&Retrieval::Search, request).results(0);
  EXPECT_EQ(RowsOf(result), (std::vector<Scored>{{11, 5}, {5, 3}, {6, 4}, {4, 2}}));
  EXPECT_THAT(result.groups().values().keyword_values(), ElementsAre("b", "a"));
  EXPECT_THAT(result.parts().scores(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(result.parts().term_sums(), ElementsAre(10, 4, 5, 3));
}

TEST_F(FewTermsTest, PartsWithoutTermsAndPackedAnswersWithTerms) {
  ServeSix();
  pb::SearchRequest request = For(1, 2);
  request.set_with_parts(true);
  request.set_packed(true);
  pb::SearchResponse response = CallOk(&Retrieval::Search, request);
  EXPECT_THAT(response.results(0).parts().scores(), ElementsAre(1, 1));
  EXPECT_THAT(response.results(0).parts().term_sums(), ElementsAre(0, 0));
  request = With(kByLevel, 2);
  request.set_packed(true);
  response = CallOk(&Retrieval::Search, request);
  EXPECT_EQ(response.packed().scores(), Bytes({11, 6}));
}

TEST_F(FewTermsTest, VerifyChecksFinalScores) {
  ServeSix();
  pb::VerifyRequest verify = FromText("collection: 'c' query { vector { values: 1 } } k: 2");
  *verify.mutable_terms() = FromText(kByLevel);
  const auto answer = CallOk(&Admin::Verify, verify);
  EXPECT_TRUE(answer.equal());
  EXPECT_THAT(answer.expected().scores(), ElementsAre(11, 6));
  *verify.mutable_claim() = CallOk(&Retrieval::Search, With(kByLevel, 2)).results(0);
  EXPECT_TRUE(CallOk(&Admin::Verify, verify).equal());
  verify.clear_terms();
  EXPECT_FALSE(CallOk(&Admin::Verify, verify).equal());
  *verify.mutable_terms() = FromText("terms { attribute: 'word' linear {} }");
  EXPECT_THAT(Call(&Admin::Verify, verify),
              RefusedWith(kInvalidArgument, "terms.terms[0].attribute"));
}

TEST_F(FewTermsTest, ARefusalNamesTheFieldTheValueAndTheLimit) {
  ServeSix();
  const auto expect = [&](const std::string& terms, const auto&... parts) {
    SCOPED_TRACE(terms);
    EXPECT_THAT(Search(With(terms)), RefusedWith(kInvalidArgument, parts...));
  };
  expect("score_weight: 0", "terms.score_weight = 0, must be above 0, at most 2^60");
  expect("score_weight: -1", "terms.score_weight = -1");
  expect("score_weight: nan", "terms.score_weight = nan");
  expect("score_weight: 2e18", "terms.score_weight = 2e+18");
  expect("terms {}", "terms.terms[0]: none of linear, clamped, half_life and filter is set");
  std::string many;
  for (int i = 0; i < 17; ++i) many += "terms { attribute: 'level' linear {} } ";
  expect(many, "terms.terms = 17 terms, must be at most 16");
  const auto expect_term = [&](const std::string& term, const auto&... parts) {
    expect("terms { attribute: 'level' linear {} } terms { " + term + " }", parts...);
  };
  expect_term("linear {}", "terms.terms[1].attribute: \"\" is no attribute");
  expect_term("attribute: 'no' linear {}", "terms.terms[1].attribute: \"no\" is no attribute");
  expect_term("attribute: 'word' linear {}", "terms.terms[1].attribute: \"word\" is a keyword");
  expect_term("attribute: 'tags' clamped { low: 0 high: 1 }", "\"tags\" is a list of int64");
  expect_term("attribute: 'level' weight: inf linear {}",
              "terms.terms[1].weight = inf, must be -2^60 .. 2^60");
  expect_term("attribute: 'level' missing: -2e18 linear {}", "terms.terms[1].missing = -2e+18");
  expect_term("attribute: 'level' linear { origin: nan }",
              "terms.terms[1].linear.origin = nan, must be finite");
  expect_term("attribute: 'level' linear { scale: 2e18 }", "terms.terms[1].linear.scale = 2e+18");
  expect_term("attribute: 'level' clamped { low: 1 }", "terms.terms[1].clamped.high: absent, must");
  expect_term("attribute: 'level' clamped { high: 1 }", "terms.terms[1].clamped.low: absent, must");
  expect_term("attribute: 'level' half_life { origin: 1 }",
              "terms.terms[1].half_life.half_life: absent, must be given");
  expect_term("attribute: 'level' half_life { half_life: 1 }",
              "terms.terms[1].half_life.origin: absent, must be given");
  expect_term("attribute: 'level' clamped { low: 1 high: 0 }",
              "terms.terms[1].clamped.low = 1, must be at most high = 0");
  expect_term("attribute: 'level' clamped { low: 0 high: inf }",
              "terms.terms[1].clamped.high = inf");
  expect_term("attribute: 'level' half_life { half_life: 0 origin: 0 }",
              "terms.terms[1].half_life.half_life = 0, must be finite and at least 2^-60");
  expect_term("attribute: 'level' half_life { half_life: inf origin: 0 }",
              "half_life.half_life = inf");
  expect_term("attribute: 'level' half_life { half_life: 1 origin: 0 offset: -1 }",
              "terms.terms[1].half_life.offset = -1, must be finite and at least 0");
  expect_term("attribute: 'level' filter { filter_text: 'level == 1' }",
              "terms.terms[1].attribute: a term with a filter has none");
  expect_term("missing: 1 filter { filter_text: 'level == 1' }",
              "terms.terms[1].missing: a term with a filter has none");
  expect_term("filter {}", "terms.terms[1].filter.filter_text: absent");
  expect_term("filter { filter_text: 'level == ' }",
              "terms.terms[1].filter.filter_text: column 10");
  expect_term("filter { filter_text: 'level == 1' filter_args { ids { numbers: 1 } } }",
              "terms.terms[1].filter.filter_args[0]");
  pb::FacetsRequest facets = FromText("collection: 'c' attributes: 'level'");
  *facets.mutable_terms() = FromText(kByLevel);
  EXPECT_THAT(Call(&Retrieval::Facets, facets),
              RefusedWith(kInvalidArgument, "query: absent, terms need one"));
  AwaitNoBytes();
}

TEST_F(FewTermsTest, TheMemoryOfNumbersIsBoundedAndReported) {
  Set(settings_.term_memory_bytes, "100");  // the numbers of one attribute
  ServeSix();
  EXPECT_OK(Search(With(kByLevel)));
  const int64_t one = server_->state().core()->catalog.attributes().numbers.bytes();
  EXPECT_GE(one, 48);
  EXPECT_OK(Search(With("terms { attribute: 'written' linear {} }")));
  EXPECT_EQ(server_->state().core()->catalog.attributes().numbers.bytes(), one);
  EXPECT_THAT(Search(With("terms { attribute: 'written' linear {} } "
                          "terms { attribute: 'level' linear {} }")),
              RefusedWith(kResourceExhausted, "term_memory_bytes"));
  EXPECT_OK(Search(For(1)));
  AwaitNoBytes();
}

// Regression: a search for groups ended the process. A filter and a term read what was left of the
// columns of the dropped attribute.
TEST_F(FewTermsTest, AnAttributeThatIsDroppedWhileASearchWaitsIsRefused) {
  ServeSix();
  const uint64_t later = CallOk(&Retrieval::Search, For(1)).epoch() + 2;
  std::vector<std::future<grpc::Status>> searches;
  for (const char* const fields :
       {"group_by: 'word'", "filter_text: 'word == \"a\"'", "attributes: ['level', 'word']",
        "terms { terms { attribute: 'level' linear {} } }",
        "terms { terms { filter { filter_text: 'level == 1' } } }"}) {
    pb::SearchRequest request =
        FromText(absl::StrCat("collection: 'c' queries { vector { values: 1 } } ", fields));
    request.set_min_epoch(later);
    searches.push_back(std::async(std::launch::async, [=, this] { return Search(request); }));
  }
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() == 5; }));
  ASSERT_OK(Call(&Admin::DropAttribute, FromText("collection: 'c' attribute: 'word'")));
  ASSERT_OK(Call(&Admin::DropAttribute, FromText("collection: 'c' attribute: 'level'")));
  const std::string words = absl::StrCat("is not declared at epoch ", later);
  for (auto& search : searches) {
    EXPECT_THAT(search.get(), HasCode(kInvalidArgument, HasSubstr(words)));
  }
}

// Answers with a wrong score.
class WrongTermsTest : public FewTermsTest, public ::testing::WithParamInterface<const char*> {
 protected:
  WrongTermsTest() {
    Set(settings_.audit_dir, dir_ / "audit");
    Set(settings_.audit_one_in, "1");
    make_engine_ = [this](const EngineOptions&) { return testing::MakeScriptedEngine(script_); };
  }
  ~WrongTermsTest() override { Drain(); }

  std::optional<nlohmann::json> FirstRecord() const {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "audit", none)) {
      if (entry.path().extension() != ".json") continue;
      std::ifstream file(entry.path());
      return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    }
    return std::nullopt;
  }

  const store::TempDir dir_;
};
INSTANTIATE_TEST_SUITE_P(FoundBy, WrongTermsTest, ::testing::Values("verify", "audit", "Verify"));

TEST_P(WrongTermsTest, ARecordHasTheTermsAsTheyWereSentAndTheirSums) {
  ServeSix();
  script_->CorruptAnswers([](Neighbors* neighbors) { neighbors->scores.Mutable()[0] += 1; });
  pb::SearchRequest search =
      With("score_weight: 2 terms { attribute: 'level' weight: 0.5 missing: 9 linear {} }", 2);
  const std::string found_by = GetParam();
  search.set_verify(found_by == "verify");
  if (found_by == "Verify") {
    pb::VerifyRequest verify = FromText("collection: 'c' query { vector { values: 1 } } k: 2");
    *verify.mutable_terms() = search.terms();
    EXPECT_FALSE(CallOk(&Admin::Verify, verify).equal());
  } else {
    EXPECT_THAT(Search(search), HasCode(found_by == "verify" ? kDataLoss : kOk));
  }
  EXPECT_TRUE(Eventually([&] { return FirstRecord().has_value(); }));
  const nlohmann::json record = *FirstRecord();
  ASSERT_TRUE(record.is_object());
  EXPECT_EQ(record["terms"].value("score_weight_bits", ""), "4000000000000000");
  EXPECT_EQ(record["terms"].value("message", ""),
            absl::BytesToHexString(search.terms().SerializeAsString()));
  EXPECT_EQ(record["expected"]["scores"], nlohmann::json({"6.5", "4.5"}));
  for (const auto& row : record["rows"]) {
    EXPECT_EQ(row.value("term_sum_bits", ""),
              row["id"] == 5 ? "4012000000000000" : "4004000000000000");
  }
}

}  // namespace
}  // namespace nearfield::server

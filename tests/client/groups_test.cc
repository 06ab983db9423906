// Tests of groups and facets in the library and the command: the fields of the requests, and
// replies whose columns do not fit.
#include <string>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/cli_fixture.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

class GroupsTest : public ::testing::Test {
 protected:
  GroupsTest() {
    CollectionSpec spec = {.name = "c", .dim = 2};
    spec.attributes = {{.name = "word", .type = AttributeType::kKeyword}};
    EXPECT_OK(client_.CreateCollection(spec));
    server_.OnReply<v1::SearchResponse>("Search", [](v1::SearchResponse* response) {
      v1::QueryResult* const result = response->mutable_results(0);
      for (const uint64_t id : {5, 7, 9}) result->mutable_ids()->add_numbers(id);
      for (const float score : {3.0f, 1.0f, 2.0f}) result->add_scores(score);
      result->mutable_groups()->mutable_values()->add_keyword_values("x");
      result->mutable_groups()->mutable_values()->add_keyword_values("y");
      result->mutable_groups()->add_rows_counts(2);
      result->mutable_groups()->add_rows_counts(1);
    });
  }

  const std::vector<float> query_ = {2, 1};
  TestServer server_;
  Client client_ = *Client::Connect({.address = server_.address()});
};

TEST_F(GroupsTest, AreReadWithTheirValuesAndRows) {
  ASSERT_OK_AND_ASSIGN(const auto answer,
                       client_.Search("c", query_, {.group_by = "word", .group_rows = 2}));
  const auto request = server_.last<v1::SearchRequest>("Search");
  EXPECT_EQ(request.group_by(), "word");
  EXPECT_EQ(request.group_rows(), 2u);
  const Neighbors& found = answer.results[0];
  ASSERT_TRUE(found.groups.has_value());
  EXPECT_EQ(found.groups->values, AttributeValues(std::vector<std::string>{"x", "y"}));
  EXPECT_THAT(found.groups->rows_counts, ::testing::ElementsAre(2, 1));
}

TEST_F(GroupsTest, CountsThatDoNotFitTheRowsAreInternal) {
  server_.OnReply<v1::SearchResponse>("Search", [](v1::SearchResponse* response) {
    response->mutable_results(0)->mutable_ids()->add_numbers(5);
    response->mutable_results(0)->add_scores(3);
    response->mutable_results(0)->mutable_groups()->add_rows_counts(2);
  });
  EXPECT_THAT(client_.Search("c", query_, {.group_by = "word"}).status(),
              StatusIs(kInternal, "malformed reply: groups"));
}

TEST_F(GroupsTest, FacetsSendTheirOptionsAndReadTheirCounts) {
  server_.OnReply<v1::FacetsResponse>("Facets", [](v1::FacetsResponse* response) {
    response->set_rows_count(9);
    response->clear_facets();
    v1::Facet* const facet = response->add_facets();
    facet->set_attribute("word");
    facet->mutable_values()->add_keyword_values("x");
    facet->add_rows_counts(6);
    facet->set_values_count(4);
    facet->set_rows_missing(1);
  });
  const std::vector<std::string> names = {"word"};
  ASSERT_OK_AND_ASSIGN(const auto answer,
                       client_.Facets("c", names, {.values_max = 1, .filter = Filter("id == 1")}));
  const auto request = server_.last<v1::FacetsRequest>("Facets");
  EXPECT_EQ(request.attributes(0), "word");
  EXPECT_EQ(request.values_max(), 1u);
  EXPECT_EQ(request.filter_text(), "id == 1");
  EXPECT_EQ(answer.rows_count, 9u);
  EXPECT_EQ(answer.facets[0].values, AttributeValues(std::vector<std::string>{"x"}));
  EXPECT_EQ(answer.facets[0].values_count, 4u);
  EXPECT_EQ(answer.facets[0].rows_missing, 1u);
}

class GroupsCommandTest : public CliTest {
 protected:
  void SetUp() override {
    const std::string rows =
        folder_.Write("books.jsonl",
                      "{\"id\":1,\"vector\":[1,0],\"year\":1999,\"tags\":[\"a\"]}\n"
                      "{\"id\":2,\"vector\":[0,1],\"year\":2020}\n"
                      "{\"id\":3,\"vector\":[1,1],\"tags\":[]}\n");
    const Outcome uploaded = Run({"upload", "books", rows, "--create", "--metric", "dot",
                                  "--attribute", "year:int64", "--attribute", "tags:keyword[]"});
    ASSERT_EQ(uploaded.exit_code, 0) << uploaded.err;
  }
};

TEST_F(GroupsCommandTest, GroupsAndFacetsAreShown) {
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-by", "year", "--group-rows", "2",
                   "--verify", "--json"}),
              Prints(HasSubstr("\"groups\":[{\"value\":2020,\"rows\":1}")));
  EXPECT_EQ(server_.last<v1::SearchRequest>("Search").group_rows(), 2u);
  EXPECT_TRUE(server_.last<v1::SearchRequest>("Search").verify());
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-by", "year"}),
              Prints(HasSubstr("score  group\n")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-by", "tags"}),
              Fails(3, HasSubstr("group_by: \"tags\" is a list")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-rows", "1"}),
              Fails(2, HasSubstr("--group-rows needs --group-by")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-by", ""}),
              Fails(2, HasSubstr("--group-by: empty, must be")));
  EXPECT_THAT(Run({"facets", "books", "year", "--id", "", "--score-threshold", "1"}),
              Fails(2, HasSubstr("an empty id")));
  EXPECT_THAT(Run({"search", "books", "--id", "1", "--group-by", "year", "--all"}),
              Fails(2, HasSubstr("--group-by goes without --all")));
  EXPECT_THAT(
      Run({"facets", "books", "year", "--json"}).out,
      HasSubstr("\"facets\":[{\"attribute\":\"year\",\"values\":[{\"value\":1999,\"rows\":1}"));
  EXPECT_THAT(Run({"facets", "books", "year", "--values", "1"}),
              Prints(HasSubstr("1 more values\n")));
  EXPECT_THAT(Run({"facets", "books", "year", "--id", "1"}),
              Fails(3, HasSubstr("score_threshold: absent")));
}

}  // namespace
}  // namespace nearfield::client

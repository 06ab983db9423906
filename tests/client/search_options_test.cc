// Tests of the options of search, count, fetch, delete and verify, and of pages; against an
// a server in this process.

#include <utility>

#include "client/cpp/retry.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

class SearchOptionsTest : public ::testing::Test {
 protected:
  SearchOptionsTest() : client_(MakeTestClient(4)) {
    EXPECT_OK(client_.CreateCollection({.name = "c", .dim = 1, .attributes = specs_}));
    AttributeColumnBuilder years(specs_[0]);
    std::vector<uint64_t> numbers;
    std::vector<float> values;
    for (uint64_t i = 0; i < kRows; ++i) {
      numbers.push_back(i);
      EXPECT_OK(years.Add(2020));
      values.push_back(static_cast<float>(kRows - i));
    }
    const IdColumn ids = numbers;
    std::string vectors;
    EXPECT_TRUE(Narrow(DataType::kFloat32, values, &vectors));
    auto upload = client_.BeginUpload({.collection = "c", .rows_max = kRows});
    const std::vector<AttributeColumn> attributes = {years.Take()};
    EXPECT_OK(upload->Write({.ids = &ids, .vectors = vectors, .attributes = attributes}));
    EXPECT_OK(upload->Commit());
  }

  Client MakeTestClient(int32_t tries_max) {
    return MakeClient({.address = server_.address(),
                       .deadline = milliseconds(20000),
                       .retry = {.tries_max = tries_max},
                       .caller = "tests"},
                      &clock_);
  }

  // Returns the ids of all pages, or the first error.
  absl::StatusOr<std::vector<uint64_t>> All(Client& client, const SearchAllOptions& options,
                                            int* pages_count = nullptr) {
    auto pages = client.SearchAll("c", std::span<const float>(query_), options);
    if (!pages.ok()) return pages.status();
    std::vector<uint64_t> found;
    for (;;) {
      auto page = pages->Next();
      if (!page.ok()) {
        EXPECT_EQ(pages->Next().status(), page.status());  // later calls return the same error
        return page.status();
      }
      if (!page->has_value()) break;
      if (pages_count != nullptr) ++*pages_count;
      const auto& ids = std::get<std::vector<uint64_t>>((*page)->results[0].ids);
      found.insert(found.end(), ids.begin(), ids.end());
    }
    EXPECT_FALSE(pages->Next()->has_value());  // later calls return the same
    return found;
  }

  // Ends each of the next calls of SearchAll after as many pages.
  void BreakPagesAfter(const std::vector<int>& pages) {
    server_.OnReply<v1::SearchResponse>(
        "SearchAll",
        [this, pages, first = server_.calls("SearchAll"), call = -1,
         sent = 0](const auto*) mutable -> std::optional<Refusal> {
          const int now = server_.calls("SearchAll") - first - 1;
          if (std::exchange(call, now) != now) sent = 0;
          const auto place = static_cast<size_t>(now);
          if (place >= pages.size() || ++sent < pages[place]) return std::nullopt;
          return Refusal{absl::UnavailableError("broken"), std::nullopt, pages[place] > 0};
        });
  }

  // Returns the cursor after the first rows of the order.
  std::string CursorAfter(uint32_t rows_count) {
    const auto answer = client_.Search("c", query_, {.k = rows_count, .with_cursor = true});
    EXPECT_OK(answer);
    return answer->results[0].next_cursor;
  }

  static constexpr uint64_t kRows = 9;
  const std::vector<AttributeSpec> specs_ = {{"year", AttributeType::kInt64},
                                             {"tags", AttributeType::kKeyword, true}};
  const std::vector<float> query_ = {1};
  const Filter filter_ = Filter::Equal("year", 2020);
  TestServer server_;
  FakeClock clock_;
  Client client_;
};

TEST_F(SearchOptionsTest, ACollectionTellsItsAttributes) {
  EXPECT_EQ(client_.GetCollection("c")->spec.attributes, specs_);
}

TEST_F(SearchOptionsTest, ASearchAsksForWhatItsOptionsSay) {
  ASSERT_OK_AND_ASSIGN(const auto answer, client_.Search("c", query_,
                                                         {.k = 2,
                                                          .filter = filter_,
                                                          .score_threshold = -0.5f,
                                                          .min_epoch = 1,
                                                          .at_epoch = 1,
                                                          .priority = SearchPriority::kBatch,
                                                          .with_cursor = true}));
  EXPECT_EQ(answer.results[0].matched_rows, kRows);
  EXPECT_NE(answer.results[0].next_cursor, "");
  auto request = server_.last<v1::SearchRequest>("Search");
  EXPECT_EQ(request.filter_text(), "`year` == $1");
  EXPECT_EQ(request.filter_args(0).values().int64_values(0), 2020);
  EXPECT_EQ(request.score_threshold(), -0.5f);
  EXPECT_EQ(request.min_epoch(), 1u);
  EXPECT_EQ(request.at_epoch(), 1u);
  EXPECT_EQ(request.priority(), v1::SEARCH_PRIORITY_BATCH);
  EXPECT_TRUE(request.with_cursor());
  EXPECT_FALSE(request.has_cursor());
  EXPECT_EQ(server_.caller("Search"), "tests");

  const std::string cursor = CursorAfter(2);
  ASSERT_OK_AND_ASSIGN(const auto next, client_.Search("c", query_, {.k = 2, .cursor = cursor}));
  EXPECT_EQ(next.results[0].ids, IdColumn(std::vector<uint64_t>{2, 3}));
  EXPECT_FALSE(next.results[0].matched_rows.has_value());
  request = server_.last<v1::SearchRequest>("Search");
  EXPECT_EQ(request.cursor(), cursor);
  EXPECT_FALSE(request.has_filter_text() || request.has_score_threshold() ||
               request.has_min_epoch() || request.has_priority() || request.has_with_cursor());
}

TEST_F(SearchOptionsTest, EveryCallSendsAFilter) {
  const std::string text = "year == 2020 and not tags any ($1)";
  const Filter filter(text, {"x"});
  const SearchOptions options{.k = 2, .filter = filter};
  ASSERT_OK_AND_ASSIGN(const auto answer, client_.Search("c", query_, options));
  EXPECT_EQ(answer.results[0].matched_rows, kRows);
  EXPECT_EQ(server_.last<v1::SearchRequest>("Search").filter_text(), text);
  EXPECT_EQ(server_.last<v1::SearchRequest>("Search").filter_args_size(), 1);
  ASSERT_OK_AND_ASSIGN(auto pages,
                       client_.SearchAll("c", std::span<const float>(query_), {.search = options}));
  ASSERT_OK(pages.Next());
  EXPECT_EQ(server_.last<v1::SearchAllRequest>("SearchAll").search().filter_text(), text);
  ASSERT_OK_AND_ASSIGN(const auto count, client_.Count("c", {.filter = filter}));
  EXPECT_EQ(count.rows_count, kRows);
  ASSERT_OK_AND_ASSIGN(const auto verified,
                       client_.Verify("c", std::span<const float>(query_), {.filter = filter}));
  EXPECT_TRUE(verified.equal);
  EXPECT_EQ(server_.last<v1::VerifyRequest>("Verify").filter_text(), text);
  EXPECT_THAT(client_.Count("c", {.filter = Filter("yeer == 1")}),
              StatusIs(kInvalidArgument, HasSubstr("filter_text: column 1: ")));
  // Unlike an absent text, an empty one does not select all rows.
  EXPECT_THAT(client_.Count("c", {.filter = Filter("")}), StatusIs(kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const auto deleted, client_.Delete("c", filter));
  EXPECT_EQ(deleted.rows_deleted, kRows);
}

TEST_F(SearchOptionsTest, EveryOtherCallAsksForWhatItsOptionsSay) {
  ASSERT_OK(client_.Count("c", {.filter = filter_, .min_epoch = 1}));
  const auto count = server_.last<v1::CountRequest>("Count");
  EXPECT_EQ(count.filter_text(), filter_.text());
  EXPECT_EQ(count.min_epoch(), 1u);
  ASSERT_OK(client_.Fetch("c", std::vector<uint64_t>{1}, {.min_epoch = 1}));
  EXPECT_EQ(server_.last<v1::FetchRequest>("Fetch").min_epoch(), 1u);
  ASSERT_OK(client_.Verify("c", std::span<const float>(query_),
                           {.filter = filter_, .score_threshold = 1.0f}));
  const auto verify = server_.last<v1::VerifyRequest>("Verify");
  EXPECT_TRUE(verify.has_filter_text());
  EXPECT_EQ(verify.score_threshold(), 1.0f);
  // A delete by filter is retried: it deletes the rows that pass at that time.
  server_.Refuse("Delete", {{absl::UnavailableError("draining"), "5"}});
  ASSERT_OK(client_.Delete("c", filter_));
  EXPECT_EQ(server_.calls("Delete"), 2);
  const auto remove = server_.last<v1::DeleteRequest>("Delete");
  EXPECT_TRUE(remove.has_filter_text());
  EXPECT_FALSE(remove.has_ids());
}

TEST_F(SearchOptionsTest, AttributesComeBack) {
  const auto expect_years = [](const std::vector<AttributeColumn>& columns, size_t count) {
    ASSERT_THAT(columns, SizeIs(2));
    EXPECT_EQ(columns[0].attribute, "year");
    EXPECT_EQ(columns[0].values, AttributeValues(std::vector<int64_t>(count, 2020)));
    EXPECT_THAT(columns[0].presence, IsEmpty());
    EXPECT_EQ(columns[1].attribute, "tags");
    EXPECT_EQ(Count(columns[1].values), 0u);
    EXPECT_EQ(columns[1].presence, std::vector<bool>(count, false));
  };
  ASSERT_OK_AND_ASSIGN(const auto answer,
                       client_.Search("c", query_, {.k = 3, .attributes = {"tags", "year"}}));
  expect_years(answer.results[0].attributes, 3);
  ASSERT_OK_AND_ASSIGN(const auto none, client_.Search("c", query_, {.k = 3}));
  EXPECT_THAT(none.results[0].attributes, IsEmpty());
  ASSERT_OK_AND_ASSIGN(const auto fetched,
                       client_.Fetch("c", std::vector<uint64_t>{1, 99, 2}, {.attributes = {"*"}}));
  expect_years(fetched.attributes, 2);
  ASSERT_OK_AND_ASSIGN(auto pages,
                       client_.SearchAll("c", query_, {.search = {.k = 4, .attributes = {"*"}}}));
  for (const size_t rows : {4, 4, 1}) {
    ASSERT_OK_AND_ASSIGN(const auto page, pages.Next());
    expect_years(page->results[0].attributes, rows);
  }
  EXPECT_THAT(client_.Search("c", query_, {.attributes = {"\xff"}}),
              StatusIs(kInvalidArgument, HasSubstr("attributes")));
}

TEST_F(SearchOptionsTest, AFilterThatCannotBeSentIsRefusedBeforeAnythingIs) {
  const Filter bad = Filter::Equal("year", "\xff");
  SearchOptions options;
  options.filter = bad;
  EXPECT_THAT(client_.Search("c", query_, options),
              StatusIs(kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_THAT(client_.Count("c", {.filter = bad}), StatusIs(kInvalidArgument));
  EXPECT_THAT(client_.Delete("c", bad), StatusIs(kInvalidArgument));
  EXPECT_THAT(client_.Verify("c", std::span<const float>(query_), {.filter = bad}),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(client_.SearchAll("c", std::span<const float>(query_), {.search = options}),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(client_.Count("c", {.filter = Filter("\xff")}),
              StatusIs(kInvalidArgument, HasSubstr("filter_text: \"\\xff\" is not UTF-8")));
  ASSERT_OK_AND_ASSIGN(auto stream, client_.OpenSearchStream("c", options));
  const Query query = std::span<const float>(query_);
  EXPECT_FALSE(stream.Send(std::span<const Query>(&query, 1)));
  EXPECT_THAT(stream.Receive(), StatusIs(kInvalidArgument, HasSubstr("not UTF-8")));
  EXPECT_EQ(server_.calls("Search") + server_.calls("Count") + server_.calls("Delete") +
                server_.calls("Verify") + server_.calls("SearchAll"),
            0);
}

TEST_F(SearchOptionsTest, CallersAreCheckedAndSentByEveryKindOfCall) {
  for (const std::string& caller :
       {std::string(129, 'a'), std::string("a\nb"), std::string("\xc3\xa9")}) {
    EXPECT_THAT(Client::Connect({.caller = caller}),
                StatusIs(kInvalidArgument, HasSubstr("caller: ")));
  }
  EXPECT_OK(Client::Connect({.caller = std::string(128, '~')}));
  ASSERT_OK(All(client_, {}));
  ASSERT_OK(client_.CheckHealth());
  auto stream = client_.OpenSearchStream("c");
  const Query query = std::span<const float>(query_);
  stream->Send(std::span<const Query>(&query, 1));
  ASSERT_OK(stream->Receive());
  for (const char* method : {"Upload", "SearchAll", "SearchStream", "Check", "GetLimits"}) {
    EXPECT_EQ(server_.caller(method), "tests") << method;
  }
  Client nameless = *Client::Connect({.address = server_.address()});
  ASSERT_OK(nameless.Count("c"));
  EXPECT_EQ(server_.caller("Count"), "");
}

TEST_F(SearchOptionsTest, AllPagesTogetherAreTheAnswer) {
  int pages_count = 0;
  EXPECT_EQ(*All(client_, {}, &pages_count), Numbers(0, kRows));
  EXPECT_EQ(pages_count, 1);
  EXPECT_FALSE(server_.last<v1::SearchAllRequest>("SearchAll").search().has_k());
  pages_count = 0;
  EXPECT_EQ(*All(client_, {.search = {.k = 2}}, &pages_count), Numbers(0, kRows));
  EXPECT_EQ(pages_count, 5);
  pages_count = 0;
  EXPECT_EQ(*All(client_, {.search = {.k = 4}, .results_max = 7}, &pages_count), Numbers(0, 7));
  EXPECT_EQ(pages_count, 2);
  EXPECT_EQ(server_.calls("SearchAll"), 3);
  SearchOptions from;
  from.k = 100;
  from.cursor = CursorAfter(6);
  EXPECT_THAT(*All(client_, {.search = from}), ElementsAre(6, 7, 8));
}

TEST_F(SearchOptionsTest, PagesGoOnAfterALostConnection) {
  // There are more breaks than tries, but each page resets the number of tries.
  BreakPagesAfter({1, 0, 0, 2, 0, 1});
  EXPECT_EQ(*All(client_, {.search = {.k = 2}, .results_max = 8}), Numbers(0, 8));
  EXPECT_EQ(server_.calls("SearchAll"), 6);
  EXPECT_EQ(server_.last<v1::SearchAllRequest>("SearchAll").results_max(), 2u);
  BreakPagesAfter({1, 0, 0, 0, 0});
  EXPECT_THAT(All(client_, {.search = {.k = 2}}), StatusIs(kUnavailable, "broken"));
  // All rows have arrived, so the status of the stream does not matter.
  BreakPagesAfter({5});
  EXPECT_EQ(*All(client_, {.search = {.k = 2}}), Numbers(0, kRows));
}

TEST_F(SearchOptionsTest, PagesEndWithTheServersWord) {
  server_.Refuse("SearchAll", {{absl::InvalidArgumentError("results_max: 0"), std::nullopt}});
  EXPECT_THAT(All(client_, {}), StatusIs(kInvalidArgument, "results_max: 0"));
  EXPECT_THAT(client_.SearchAll("\xff", std::span<const float>(query_)),
              StatusIs(kInvalidArgument));
  // A page of another epoch does not belong to this search.
  server_.OnReply<v1::SearchResponse>(
      "SearchAll", [epoch = uint64_t{2}](auto* page) mutable { page->set_epoch(epoch++); });
  EXPECT_THAT(All(client_, {.search = {.k = 2}}), StatusIs(kInternal, HasSubstr("epoch 3 after")));
}

TEST_F(SearchOptionsTest, PagesThatAreNotWantedAreLeft) {
  ASSERT_OK_AND_ASSIGN(auto pages, client_.SearchAll("c", std::span<const float>(query_)));
  ASSERT_OK(pages.Next());
  { const SearchPages left = std::move(pages); }
  EXPECT_OK(client_.Count("c"));
}

}  // namespace
}  // namespace nearfield::client

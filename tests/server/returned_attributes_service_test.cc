// Tests of the attributes that searches and fetches return, over a real channel.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/convert/attributes.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_messages.h"
#include "tests/server/server_fixture.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using Columns = google::protobuf::RepeatedPtrField<pb::AttributeColumn>;
using Rows = std::map<uint64_t, PlainRow>;  // by id

class ReturnedAttributesTest : public ServerFixture {
 protected:
  // Serves an empty collection "c" with these attributes.
  void ServeWith(const std::vector<AttributeSpec>& specs) {
    specs_ = specs;
    Serve();
    pb::CreateCollectionRequest request = FromText(
        "name: 'c' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64");
    ToProto(Schema(specs), request.mutable_attributes());
    ASSERT_OK(Call(&Admin::CreateCollection, request));
  }
  static AttributeSchema Schema(const std::vector<AttributeSpec>& specs) {
    return *AttributeSchema::Create(specs, {});
  }
  // Uploads random rows with the ids [begin, end), and adds them to *rows.
  void Upload(uint64_t begin, uint64_t end, pb::UploadMode mode, Rows* rows) {
    const std::vector<PlainRow> drawn =
        RandomRows(random_, specs_, static_cast<int64_t>(end - begin));
    UploadThese(begin, drawn, mode);
    if (mode == pb::UPLOAD_MODE_REPLACE) rows->clear();
    for (uint64_t id = begin; id < end; ++id) (*rows)[id] = drawn[id - begin];
  }
  void UploadThese(uint64_t begin, const std::vector<PlainRow>& rows, pb::UploadMode mode) {
    std::vector<uint64_t> ids;
    for (size_t row = 0; row < rows.size(); ++row) ids.push_back(begin + row);
    pb::UploadRequest open = Begin("c", rows.size());
    open.mutable_begin()->set_mode(mode);
    pb::UploadRequest block = Block(ids);
    ToMessages(Schema(specs_), BlockOf(Schema(specs_), rows),
               block.mutable_block()->mutable_attributes());
    ASSERT_OK(Send({open, block, Commit()}));
  }

  // Returns random names for a request, and their specs in the order of the declaration.
  std::pair<std::vector<std::string>, std::vector<AttributeSpec>> Draw() {
    if (random_.OneIn(3)) return {{"*"}, specs_};
    std::vector<AttributeSpec> chosen;
    for (const AttributeSpec& spec : specs_) {
      if (random_.OneIn(2)) chosen.push_back(spec);
    }
    std::vector<std::string> names;
    for (const AttributeSpec& spec : chosen) names.push_back(spec.name);
    random_.Shuffle(names);
    return {names, chosen};
  }

  // Expects these columns for the rows with `ids`.
  void ExpectColumns(const Columns& columns, const std::vector<AttributeSpec>& chosen,
                     const pb::IdList& ids, const Rows& rows) {
    ASSERT_EQ(columns.size(), static_cast<int>(chosen.size()));
    std::vector<PlainRow> expected;
    for (const uint64_t id : ids.numbers()) {
      PlainRow& row = expected.emplace_back();
      for (size_t i = 0; i < specs_.size(); ++i) {
        const bool is_chosen = std::find(chosen.begin(), chosen.end(), specs_[i]) != chosen.end();
        if (is_chosen) row.attributes.push_back(rows.at(id).attributes[i]);
      }
    }
    for (size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(columns[static_cast<int>(i)].attribute(), chosen[i].name);
    }
    ASSERT_OK_AND_ASSIGN(const auto block,
                         FromProto(columns, Schema(chosen), ids.numbers_size(), AttributeLimits()));
    ExpectSameBits(block, BlockOf(Schema(chosen), expected));
  }
  void ExpectResults(const pb::SearchResponse& response, const std::vector<AttributeSpec>& chosen,
                     const Rows& rows) {
    for (const pb::QueryResult& result : response.results()) {
      ExpectColumns(result.attributes(), chosen, result.ids(), rows);
    }
  }
  static pb::SearchRequest Wanting(const std::vector<std::string>& names, uint32_t k) {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    *request.add_queries() = SearchFor("c", {-1, 0}).queries(0);
    request.set_k(k);
    for (const std::string& name : names) request.add_attributes(name);
    return request;
  }
  // Returns all pages of one query.
  std::vector<pb::SearchResponse> All(pb::SearchRequest search) {
    search.mutable_queries()->RemoveLast();
    pb::SearchAllRequest request;
    *request.mutable_search() = search;
    grpc::ClientContext context;
    const auto stream = retrieval_->SearchAll(&context, request);
    std::vector<pb::SearchResponse> pages;
    for (pb::SearchResponse page; stream->Read(&page);) pages.push_back(page);
    EXPECT_OK(stream->Finish());
    return pages;
  }

  // Waits until the bytes of all replies are released.
  void AwaitNoReply() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().replies.bytes() == 0; }));
  }

  testing::Random random_{testing::TestSeed()};
  std::vector<AttributeSpec> specs_;
};

TEST_F(ReturnedAttributesTest, EveryCallReturnsTheUploadedValues) {
  ServeWith(RandomSpecs(random_));
  Rows rows;
  for (int round = 0; round < 6; ++round) {
    const auto begin = static_cast<uint64_t>(random_.Between(0, 60));
    Upload(begin, begin + 40,
           random_.OneOf<pb::UploadMode>({pb::UPLOAD_MODE_UPSERT, pb::UPLOAD_MODE_REPLACE}), &rows);
    if (round % 2 == 1) {
      ASSERT_OK(Call(&Admin::Compact, Of("c")));
    }
    const auto [names, chosen] = Draw();
    const pb::SearchRequest search = Wanting(names, 1 + round * 10);
    ExpectResults(CallOk(&Retrieval::Search, search), chosen, rows);

    SearchStreamCall stream(*retrieval_, {search, search});
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(stream.Read());
      ExpectResults(stream.response, chosen, rows);
    }
    stream.stream->WritesDone();
    EXPECT_OK(stream.ReadToEnd());

    const std::vector<pb::SearchResponse> pages = All(search);
    int rows_count = 0;
    for (const pb::SearchResponse& page : pages) {
      ExpectResults(page, chosen, rows);
      rows_count += page.results(0).scores_size();
    }
    EXPECT_EQ(rows_count, static_cast<int>(rows.size()));

    pb::FetchRequest fetch = FromText("collection: 'c'");
    for (uint64_t id = begin + 30; id < begin + 50; ++id) fetch.mutable_ids()->add_numbers(id);
    for (const std::string& name : names) fetch.add_attributes(name);
    const auto fetched = CallOk(&Retrieval::Fetch, fetch);
    EXPECT_GE(fetched.ids().numbers_size(), 10);
    ExpectColumns(fetched.attributes(), chosen, fetched.ids(), rows);
  }
  AwaitNoReply();
}

// A page reads the values of its own epoch, whatever replaced the rows since.
TEST_F(ReturnedAttributesTest, APageReturnsTheValuesOfItsEpoch) {
  ServeWith(RandomSpecs(random_));
  Rows rows;
  Upload(0, 50, pb::UPLOAD_MODE_INSERT, &rows);
  pb::SearchRequest search = Wanting({"*"}, 10);
  search.mutable_queries()->RemoveLast();
  search.set_with_cursor(true);
  auto page = CallOk(&Retrieval::Search, search);
  for (int pages = 1; pages < 5; ++pages) {
    Rows other = rows;
    Upload(0, 50, pb::UPLOAD_MODE_REPLACE, &other);
    ASSERT_OK(Call(&Admin::Compact, Of("c")));
    search.set_cursor(page.results(0).next_cursor());
    page = CallOk(&Retrieval::Search, search);
    ASSERT_EQ(page.results(0).scores_size(), 10);
    ExpectResults(page, specs_, rows);
  }
}

TEST_F(ReturnedAttributesTest, SearchesOfOnePassGetTheirOwnAttributes) {
  ServeWith(RandomSpecs(random_));
  Rows rows;
  Upload(0, 30, pb::UPLOAD_MODE_INSERT, &rows);
  script_->search_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Search(Wanting({}, 1)); });
  script_->search_gate.AwaitArrivals(1);
  constexpr size_t kSearches = 6;
  std::vector<std::vector<AttributeSpec>> chosen;
  std::vector<pb::SearchResponse> responses(kSearches);
  std::vector<std::future<grpc::Status>> searches;
  for (size_t i = 0; i < kSearches; ++i) {
    const auto drawn =
        i == 0 ? std::pair(std::vector<std::string>(), std::vector<AttributeSpec>()) : Draw();
    chosen.push_back(drawn.second);
    searches.push_back(std::async(std::launch::async, [&, i, names = drawn.first] {
      return Search(Wanting(names, 5), &responses[i]);
    }));
  }
  while (server_->state().core()->queue.waiting() < static_cast<int64_t>(kSearches)) {
    std::this_thread::yield();
  }
  script_->search_gate.Open();
  EXPECT_OK(first.get());
  for (size_t i = 0; i < kSearches; ++i) {
    ASSERT_OK(searches[i].get());
    EXPECT_EQ(responses[i].cost().batch_size(), 2 * kSearches) << "all in one pass";
    ExpectResults(responses[i], chosen[i], rows);
  }
}

TEST_F(ReturnedAttributesTest, WrongNamesAreRefusedBeforeTheWaitForAnEpoch) {
  ServeWith({{.name = "year"}, {.name = "tag", .type = AttributeType::kKeyword}});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"attributes: 'year' attributes: 'size'", "attributes[1]: \"size\" is no attribute"},
      {"attributes: 'year' attributes: 'year'", "attributes[1]: \"year\" is given twice"},
      {"attributes: 'tag' attributes: '*'", "attributes[1]: \"*\" means all attributes"}};
  for (const auto& [text, error] : cases) {
    const std::string names = text + " collection: 'c' min_epoch: 1000 ";
    const std::string query = "queries { vector { values: [1, 0] } } ";
    EXPECT_THAT(Search(FromText(names + query)), RefusedWith(kInvalidArgument, error));
    EXPECT_THAT(Call(&Retrieval::Fetch, FromText(names + "ids { numbers: 1 }")),
                RefusedWith(kInvalidArgument, error));
    grpc::ClientContext context;
    const auto stream =
        retrieval_->SearchAll(&context, FromText(absl::StrCat("search { ", names, query, " }")));
    pb::SearchResponse none;
    EXPECT_FALSE(stream->Read(&none));
    EXPECT_THAT(stream->Finish(), RefusedWith(kInvalidArgument, "search." + error));
  }
}

TEST_F(ReturnedAttributesTest, TheDigestDoesNotIncludeThem) {
  ServeWith({{.name = "year"}});
  Rows rows;
  Upload(0, 20, pb::UPLOAD_MODE_INSERT, &rows);
  pb::SearchRequest search = Wanting({}, 5);
  search.set_with_digest(true);
  const auto without = CallOk(&Retrieval::Search, search);
  search.add_attributes("*");
  const auto with = CallOk(&Retrieval::Search, search);
  EXPECT_EQ(with.results(0).attributes_size(), 1);
  EXPECT_EQ(with.result_digest(), without.result_digest());
}

// A reply that is too large is refused before it is made, even if the engine's answer is small.
TEST_F(ReturnedAttributesTest, ALargeReplyIsRefused) {
  Set(settings_.response_bytes_max, "64KiB");
  Set(settings_.payload_bytes_max, "1KiB");
  ServeWith({{.name = "tag", .type = AttributeType::kKeyword}, {.name = "year"}});
  const std::vector<PlainRow> rows(
      100, {.attributes = {std::vector<PlainValue>{std::string(1000, 'x')}, std::nullopt}});
  UploadThese(0, rows, pb::UPLOAD_MODE_INSERT);
  const auto search = [&](const std::string& name, uint32_t k, grpc::ClientContext* context) {
    pb::SearchRequest request = Wanting({name}, k);
    request.mutable_queries()->RemoveLast();
    return Search(request, nullptr, context);
  };
  const auto fetch = [&](const std::string& name, uint64_t count, grpc::ClientContext* context) {
    pb::FetchRequest request = FromText("collection: 'c'");
    request.add_attributes(name);
    for (uint64_t id = 0; id < count; ++id) request.mutable_ids()->add_numbers(id);
    return Call(&Retrieval::Fetch, request, nullptr, context);
  };
  const auto refused = RefusedWith(kResourceExhausted, "the limit is 65536", "attributes");
  for (const std::string name : {"tag", "*"}) {
    grpc::ClientContext contexts[4];
    EXPECT_OK(search(name, 60, &contexts[0]));
    EXPECT_THAT(search(name, 80, &contexts[1]), refused);
    EXPECT_OK(fetch(name, 60, &contexts[2]));
    EXPECT_THAT(fetch(name, 80, &contexts[3]), refused);
    for (const int i : {1, 3})
      EXPECT_EQ(Trailer(contexts[i], "grpc-retry-pushback-ms"), std::nullopt);
  }
  grpc::ClientContext contexts[2];
  EXPECT_OK(search("year", 100, &contexts[0]));
  EXPECT_OK(fetch("year", 100, &contexts[1]));
  AwaitNoReply();
}

class ScannedAttributesTest : public ReturnedAttributesTest {
 protected:
  std::vector<pb::ScanResponse> Scan(const std::vector<std::string>& names,
                                     const std::string& cursor = "") {
    pb::ScanRequest request = FromText("collection: 'c'");
    for (const std::string& name : names) request.add_attributes(name);
    if (!cursor.empty()) request.set_cursor(cursor);
    grpc::ClientContext context;
    const auto stream = retrieval_->Scan(&context, request);
    std::vector<pb::ScanResponse> replies;
    for (pb::ScanResponse reply; stream->Read(&reply);) replies.push_back(reply);
    EXPECT_OK(stream->Finish());
    return replies;
  }
};

TEST_F(ScannedAttributesTest, AScanReturnsTheValuesOfItsEpoch) {
  ServeWith(RandomSpecs(random_));
  Rows rows;
  Upload(0, 200, pb::UPLOAD_MODE_INSERT, &rows);
  Upload(50, 90, pb::UPLOAD_MODE_UPSERT, &rows);
  for (int round = 0; round < 10; ++round) {
    const auto [names, chosen] = Draw();
    const auto replies = Scan(names);
    ASSERT_EQ(replies.size(), 1u);
    ASSERT_EQ(replies[0].ids().numbers_size(), 200);
    ExpectColumns(replies[0].attributes(), chosen, replies[0].ids(), rows);
  }
  grpc::ClientContext context;
  const auto refused =
      retrieval_->Scan(&context, FromText("collection: 'c' attributes: 'absent' min_epoch: 1000"));
  pb::ScanResponse none;
  EXPECT_FALSE(refused->Read(&none));
  EXPECT_THAT(refused->Finish(), RefusedWith(kInvalidArgument, "attributes[0]: \"absent\""));
}

// Attributes count towards the size of a reply, in memory too; a cursor reads those of its epoch.
TEST_F(ScannedAttributesTest, LargeAttributesMakeMoreReplies) {
  ServeWith({{.name = "tags", .type = AttributeType::kKeyword, .is_list = true},
             {.name = "year", .type = AttributeType::kInt64}});
  Rows rows;
  std::vector<PlainRow> drawn;
  for (uint64_t id = 0; id < 400; ++id) {
    // 60 KB in one value, many small values, or none.
    const bool small = random_.OneIn(2);
    std::vector<PlainValue> tags(small ? 500 : 50, std::string(small ? 1 : 1000, 'x'));
    drawn.push_back({.attributes = {random_.OneIn(3) ? PlainAttribute() : PlainAttribute(tags),
                                    std::vector<PlainValue>{static_cast<int64_t>(id)}}});
    rows[id] = drawn.back();
  }
  UploadThese(0, drawn, pb::UPLOAD_MODE_INSERT);
  const auto replies = Scan({"*"});
  ASSERT_GT(replies.size(), 5u);
  uint64_t next = 0;
  for (const pb::ScanResponse& reply : replies) {
    EXPECT_LE(reply.ByteSizeLong(), size_t{1} << 20);
    EXPECT_LE(reply.SpaceUsedLong(), size_t{2} << 20);  // 1 MiB, and what vectors hold unused
    EXPECT_EQ(reply.ids().numbers(0), next);
    next += static_cast<uint64_t>(reply.ids().numbers_size());
    ExpectColumns(reply.attributes(), specs_, reply.ids(), rows);
  }
  EXPECT_EQ(next, 400u);
  Rows other = rows;
  Upload(0, 400, pb::UPLOAD_MODE_REPLACE, &other);
  ASSERT_OK(Call(&Admin::Compact, Of("c")));
  const auto rest = Scan({"*"}, replies[2].next_cursor());
  // A scan that continues may cut the rows into other replies.
  next = replies[3].ids().numbers(0);
  for (const pb::ScanResponse& reply : rest) {
    ASSERT_EQ(reply.ids().numbers(0), next);
    next += static_cast<uint64_t>(reply.ids().numbers_size());
    ExpectColumns(reply.attributes(), specs_, reply.ids(), rows);
  }
  EXPECT_EQ(next, 400u);
  AwaitNoReply();
}

}  // namespace
}  // namespace nearfield::server

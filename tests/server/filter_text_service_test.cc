// Tests of filters over a real channel: every call takes a text and arguments, and refuses bad
// ones.
#include <algorithm>
#include <cstdint>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/convert/attributes.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_messages.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/pages_fixture.h"

namespace nearfield::server {
namespace {

constexpr int64_t kRows = 70;

class FilterTextServiceTest : public PagesServiceTest {
 protected:
  // Serves a collection "c" of rows with random attributes. Row i has the id i.
  void ServeAttributes() {
    Serve();
    pb::CreateCollectionRequest create = FromText("name: 'c' dim: 1 metric: METRIC_DOT");
    create.set_dtype(pb::DATA_TYPE_FLOAT32);
    create.set_id_type(pb::ID_TYPE_UINT64);
    ToProto(schema_, create.mutable_attributes());
    ASSERT_OK(Call(&Admin::CreateCollection, create));
    pb::UploadRequest request;
    pb::UploadBlock* const block = request.mutable_block();
    std::vector<float> values;
    for (int64_t i = 0; i < kRows; ++i) {
      block->mutable_ids()->add_numbers(static_cast<uint64_t>(i));
      values.push_back(static_cast<float>(random_.Between(0, 20)));
    }
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(Bytes(values));
    ToMessages(schema_, BlockOf(schema_, rows_), block->mutable_attributes());
    ASSERT_OK(Send({Begin("c", kRows), request, Commit()}));
  }

  FilterTree DrawFilter() {
    for (;;) {
      FilterTree tree = RandomFilter(random_, specs_, 4, kRows);
      if (FitsAsText(tree)) return tree;
    }
  }

  static pb::SearchRequest WithText(pb::SearchRequest request, const FilterTree& tree) {
    request.set_filter_text(TextOf(tree));
    return request;
  }
  pb::SearchRequest WithArguments(pb::SearchRequest request, const FilterTree& tree) {
    SetFilter(PrintWithArguments(tree, random_), &request);
    return request;
  }

  // Returns the responses without the costs.
  std::vector<std::string> Stream(const std::vector<pb::SearchRequest>& requests) {
    SearchStreamCall stream(*retrieval_, requests);
    stream.stream->WritesDone();
    std::vector<std::string> responses;
    while (stream.Read()) responses.push_back(Answer(stream.response));
    EXPECT_OK(stream.Finish());
    return responses;
  }
  static std::string Answer(pb::SearchResponse response) {
    response.clear_cost();
    return response.SerializeAsString();
  }

  // Calls every RPC that takes a filter; `fields` are those of the filter.
  std::vector<std::pair<std::string, grpc::Status>> CallAll(const std::string& fields) {
    const std::string query = " queries { vector { values: 1 } } k: 3 ";
    const std::string search = "collection: 'c' " + fields + query;
    pb::SearchAllRequest all = FromText("search { " + search + " }");
    SearchStreamCall stream(*retrieval_, {FromText(search)});
    stream.stream->WritesDone();
    return {{"Search", Search(FromText(search))},
            {"SearchStream", stream.ReadToEnd()},
            {"SearchAll", All(all.search()).status},
            {"Count", Call(&Retrieval::Count, FromText("collection: 'c' " + fields))},
            {"Verify", Call(&Admin::Verify,
                            FromText("collection: 'c' query { vector { values: 1 } } " + fields))},
            {"Delete", Call(&Ingest::Delete, FromText("collection: 'c' " + fields))}};
  }

  FilterCache::Stats CacheStats() {
    return server_->state().core()->catalog.attributes().cache.stats();
  }
  // Waits until no call holds memory. A call may hold it a little longer than its client waits.
  void AwaitNoRequestBytes() {
    EXPECT_TRUE(Eventually([&] { return server_->state().ledger().requests.bytes() == 0; }));
  }

  testing::Random random_{seed_};
  const std::vector<AttributeSpec> specs_ = RandomSpecs(random_);
  const AttributeSchema schema_ = *AttributeSchema::Create(specs_, {});
  const std::vector<PlainRow> rows_ = RandomRows(random_, specs_, kRows);
};

TEST_F(FilterTextServiceTest, ATextAndArgumentsFindTheRowsAndTheCursorsOfTheText) {
  ServeAttributes();
  for (int round = 0; round < 150; ++round) {
    const FilterTree tree = DrawFilter();
    SCOPED_TRACE(TextOf(tree));
    const std::vector<uint32_t> passing = PassingRows(tree, specs_, rows_);
    const auto passing_count = static_cast<int64_t>(passing.size());
    pb::SearchRequest plain = For(1, static_cast<uint32_t>(random_.Between(1, kRows)));
    plain.set_with_cursor(true);
    pb::SearchRequest by_text = WithText(plain, tree);
    pb::SearchRequest by_arguments = WithArguments(plain, tree);

    pb::SearchResponse page = CallOk(&Retrieval::Search, by_text);
    EXPECT_EQ(page.results(0).matched_rows(), passing.size());
    EXPECT_EQ(Answer(page), Answer(CallOk(&Retrieval::Search, by_arguments))) << "cursors included";
    // The next pages, at random with or without arguments.
    Pages pages;
    Append(page, &pages);
    while (page.results(0).has_next_cursor()) {
      pb::SearchRequest next = random_.OneIn(2) ? by_text : by_arguments;
      next.set_cursor(page.results(0).next_cursor());
      page = CallOk(&Retrieval::Search, next);
      Append(page, &pages);
    }
    std::vector<uint32_t> found;
    for (int64_t i = 0; i < pages.all.ids.size(); ++i) {
      found.push_back(static_cast<uint32_t>(pages.all.ids.number(i)));
    }
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, passing);

    EXPECT_THAT(All(WithText(For(1, 9), tree)).all, testing::BytesEqual(pages.all));
    const auto streamed = Stream({by_text, by_arguments});
    ASSERT_EQ(streamed.size(), 2u);
    EXPECT_EQ(streamed[0], streamed[1]);

    pb::CountRequest count = Of("c");
    SetFilter(PrintWithArguments(tree, random_), &count);
    EXPECT_EQ(CallOk(&Retrieval::Count, count).rows_count(), passing.size());
    pb::VerifyRequest verify = FromText("collection: 'c' query { vector { values: 1 } } k: 5");
    SetFilter(PrintWithArguments(tree, random_), &verify);
    const auto verdict = CallOk(&Admin::Verify, verify);
    EXPECT_TRUE(verdict.equal());
    EXPECT_EQ(verdict.expected().scores_size(), std::min<int64_t>(passing_count, 5));
    if (HasFailure()) return;
  }
  AwaitNoRequestBytes();
}

TEST_F(FilterTextServiceTest, ADeleteDeletesTheRowsThatPass) {
  ServeAttributes();
  std::vector<bool> deleted(static_cast<size_t>(kRows), false);
  for (int round = 0; round < 30; ++round) {
    const FilterTree tree = DrawFilter();
    uint64_t expected = 0;
    for (const uint32_t row : PassingRows(tree, specs_, rows_)) {
      if (!deleted[row]) ++expected;
      deleted[row] = true;
    }
    pb::DeleteRequest request = Of("c");
    SetFilter(PrintWithArguments(tree, random_), &request);
    ASSERT_EQ(CallOk(&Ingest::Delete, request).rows_deleted(), expected) << TextOf(tree);
  }
  AwaitNoRequestBytes();
}

TEST_F(FilterTextServiceTest, ATextUsesTheCachedResultOfTheSameFilter) {
  ServeAttributes();
  const FilterTree tree = Or({HasId(IdColumn::OfNumbers({1, 2})), Exists(specs_[0].name)});
  pb::SearchRequest by_arguments = For(1);
  by_arguments.set_filter_text(absl::StrCat("exists(`", specs_[0].name, "`) or id in $1"));
  for (const uint64_t id : {2, 1, 2}) {
    if (by_arguments.filter_args().empty()) by_arguments.add_filter_args();
    by_arguments.mutable_filter_args(0)->mutable_ids()->add_numbers(id);
  }
  ASSERT_OK(Search(by_arguments));
  const auto before = CacheStats();
  ASSERT_EQ(before.entries_count, 1);
  ASSERT_OK(Search(WithText(For(1), tree)));
  EXPECT_EQ(CacheStats().entries_count, 1);
}

TEST_F(FilterTextServiceTest, EveryCallRefusesABadTextAndNamesTheColumn) {
  ServeAttributes();
  const std::pair<std::string, std::string> cases[] = {
      {"filter_text: ''", "filter_text: column 1: a filter is expected"},
      {"filter_text: 'exists(x) and yeer == 1'", "filter_text: column 8: the collection declares"},
      {"filter_text: 'id == 1 or id == \"a\"'", "filter_text: column 18: expected an id"},
      {"filter_text: 'id == $1'", "filter_text: column 7: $1: not given"},
      {"filter_args { ids {} }", "filter_args: 1 given without filter_text"},
      {"filter_text: '" + std::string(65537, ' ') + "'",
       "filter_text = 65537 bytes, must be at most 65536"}};
  for (const auto& [fields, message] : cases) {
    for (const auto& [call, status] : CallAll(fields)) {
      const std::string search = call == "SearchAll" ? "search." : "";
      EXPECT_THAT(status, HasCode(kInvalidArgument, StartsWith(search + message))) << call;
    }
  }
  EXPECT_THAT(
      Call(&Ingest::Delete, FromText("collection: 'c' filter_text: 'id == 1' ids { numbers: 1 }")),
      HasCode(kInvalidArgument, StartsWith("filter_text: given with 1 ids")));
  EXPECT_EQ(RowsCount(), static_cast<uint64_t>(kRows));
  for (const auto& [call, status] : CallAll("filter_text: 'id in (1, 2)'")) {
    EXPECT_OK(status) << call;
  }
  EXPECT_EQ(RowsCount(), static_cast<uint64_t>(kRows) - 2);
  AwaitNoRequestBytes();
}

TEST_F(FilterTextServiceTest, ATextIsCheckedBeforeTheWaitForAnEpoch) {
  ServeAttributes();
  const std::string later = " min_epoch: 2 queries { vector { values: 1 } }";
  EXPECT_THAT(Search(FromText("collection: 'c' filter_text: 'id' " + later)),
              HasCode(kInvalidArgument, StartsWith("filter_text: column 3: ")));
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'c' filter_text: 'id' min_epoch: 2")),
              HasCode(kInvalidArgument, StartsWith("filter_text: column 3: ")));
  const std::string text = "collection: 'c' filter_text: 'id in (3, 1000)' ";
  auto search = std::async(std::launch::async, [&] {
    return CallOk(&Retrieval::Search, FromText(text + later)).results(0).matched_rows();
  });
  auto count = std::async(std::launch::async, [&] {
    return CallOk(&Retrieval::Count, FromText(text + "min_epoch: 2")).rows_count();
  });
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->epoch_waiters.waiting() >= 2; }));
  CommitRow(1000);
  EXPECT_EQ(search.get(), 2u);
  EXPECT_EQ(count.get(), 2u);
}

TEST_F(FilterTextServiceTest, TheMemoryToParseATextIsReserved) {
  Set(settings_.payload_bytes_max, "1KiB");
  Set(settings_.request_bytes_max, "128KiB");
  Set(settings_.requests_bytes_max, "128KiB");
  ServeAttributes();
  std::string text = "id == 1";
  EXPECT_OK(CallAll("filter_text: '" + text + "'").front().second);
  for (int i = 0; i < 200; ++i) text += " or id == 1";
  for (const auto& [call, status] : CallAll("filter_text: '" + text + "'")) {
    EXPECT_THAT(status, RefusedWith(kResourceExhausted, "requests_bytes_max")) << call;
  }
  AwaitNoRequestBytes();
}

}  // namespace
}  // namespace nearfield::server

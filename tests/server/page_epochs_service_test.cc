// Tests of the state to which the pages of a search belong, and of how long it is kept.
#include <cstdint>
#include <string>

#include "server/store/store.h"
#include "tests/server/pages_fixture.h"
#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

// Regression: all callers shared 64 kept epochs, so that any caller could end the pages of another.
TEST_F(PagesServiceTest, ACallerLosesItsOwnOldestEpochAndNoOthers) {
  Set(settings_.epochs_kept_max, "2");
  ServeCorpus(20);
  pb::SearchRequest first = For(1, 5);
  first.set_with_cursor(true);
  pb::SearchResponse response;
  ASSERT_OK(SearchAs("honest", first, &response));
  pb::SearchRequest next = first;
  next.set_cursor(response.results(0).next_cursor());
  std::string oldest;
  for (uint64_t i = 0; i < 4; ++i) {
    CommitRow(1000 + i);
    ASSERT_OK(SearchAs("greedy", first, &response));
    if (i == 0) oldest = response.results(0).next_cursor();
  }
  CommitRow(2000);
  EXPECT_OK(SearchAs("honest", next, &response));
  EXPECT_EQ(response.epoch(), 1u);
  next.set_cursor(oldest);
  EXPECT_THAT(SearchAs("greedy", next, &response),
              RefusedWith(kFailedPrecondition, "epoch 2 is kept no longer"));
}

// Regression: a SearchAll lost its epoch if its caller, or any other, began searches with cursors
// meanwhile, and its collection if its alias was set to another one.
TEST_F(PagesServiceTest, ALiveSearchAllHoldsItsEpochAndItsCollection) {
  Set(settings_.epochs_kept_max, "2");
  Set(settings_.cursor_ms, "1");
  Set(settings_.host_memory_bytes, "512MiB");
  Serve();
  ASSERT_OK(CreateCollection("c", 1));
  const std::string payload(60'000, 'p');
  for (uint64_t part = 0; part < 4; ++part) {  // 38 MB: more than fits between server and client
    ASSERT_OK(UploadRange(160 * part, 160, payload));
  }
  pb::SearchAllRequest request;
  *request.mutable_search() = For(1, 16);
  request.mutable_search()->set_with_payload(true);
  request.mutable_search()->set_collection("live");
  ASSERT_OK(Call(&Admin::SetAlias, FromText("alias: 'live' collection: 'c'")));
  grpc::ClientContext context;
  const auto stream = retrieval_->SearchAll(&context, request);
  pb::SearchResponse page;
  ASSERT_TRUE(stream->Read(&page));
  ASSERT_OK(CreateCollection("other", 1));
  ASSERT_OK(Call(&Admin::SetAlias, FromText("alias: 'live' collection: 'other'")));
  int64_t rows = page.results(0).scores_size();
  for (uint64_t i = 0; i < 4; ++i) {
    CommitRow(1000 + i);
    EXPECT_NE(CursorBehind(For(1, 5)), "");
  }
  while (stream->Read(&page)) {
    rows += page.results(0).scores_size();
    EXPECT_EQ(page.epoch(), 4u);
  }
  EXPECT_OK(stream->Finish());
  EXPECT_EQ(rows, 640);
}

// Regression: a reader that renewed its cursors kept the memory of every replaced corpus.
TEST_F(PagesServiceTest, CursorsGiveWayToUploadsBeyondTheirShareOfTheMemory) {
  Set(settings_.epochs_kept_percent, "0");
  ServeCorpus(20);
  pb::SearchRequest search = For(1, 5);
  search.set_cursor(CursorBehind(search));
  CommitRow(1000);
  EXPECT_OK(Search(search)) << "nothing went: the epoch pins nothing";
  pb::UploadRequest begin = Begin("c", 1);
  begin.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
  ASSERT_OK(Send({begin, Commit()}));
  EXPECT_THAT(Search(search), RefusedWith(kFailedPrecondition, "is kept no longer"));
}

TEST_F(PagesServiceTest, LimitsTellWhatBoundsPagesFiltersAndUploads) {
  Set(settings_.epochs_kept_max, "3");
  Serve();
  const pb::GetLimitsResponse limits = CallOk(&Retrieval::GetLimits);
  EXPECT_EQ(limits.epochs_kept_max(), 3u);
  EXPECT_EQ(limits.epochs_kept_percent(), 10u);
  EXPECT_EQ(limits.uploads_max(), 8u);
  EXPECT_EQ(limits.verify_max(), 2u);
  EXPECT_EQ(limits.aliases_max(), 1024u);
  EXPECT_EQ(limits.upload_token_bytes_max(), 256u);
  EXPECT_EQ(limits.attributes_max(), 64u);
  EXPECT_EQ(limits.attribute_keyword_bytes_max(), 1024u);
  EXPECT_EQ(limits.attribute_list_values_max(), 1024u);
  EXPECT_EQ(limits.attribute_row_bytes_max(), 65536u);
  EXPECT_EQ(limits.filter_levels_max(), 8u);
  EXPECT_EQ(limits.filter_conditions_max(), 256u);
  EXPECT_EQ(limits.filter_values_max(), 4096u);
  EXPECT_EQ(limits.filter_bytes_max(), 65536u);
}

class PageCursorIncarnationTest : public PagesServiceTest {
 protected:
  // Serves this data directory. A collection "c" in it is used as it is.
  void ServeDir(const std::string& name) {
    Drain();
    Set(settings_.data_dir, dir_ / name);
    Set(settings_.snapshot_dir, dir_ / "snapshots");
    Serve();
  }
  void MakeRows() {
    ASSERT_OK(CreateCollection("c", 1));
    ASSERT_OK(UploadRange(0, 20));
  }
  uint64_t Incarnation() {
    return CallOk(&Admin::GetCollection, FromText("name: 'c'")).collection().incarnation();
  }

  const store::TempDir dir_;
};

// Regression: a collection was identified by its number in its data directory. A cursor of another
// directory, or from before a restore, was accepted if the collection reached the same epoch.
TEST_F(PageCursorIncarnationTest, ACursorOfAnotherHistoryIsRefused) {
  ServeDir("a");
  MakeRows();
  ASSERT_OK(Call(&Admin::CreateSnapshot, FromText("name: 's'")));
  CommitRow(100);
  pb::SearchRequest search = For(1, 5);
  search.set_cursor(CursorBehind(search));
  const uint64_t incarnation = Incarnation();
  EXPECT_NE(incarnation, 0u);

  ServeDir("a");
  EXPECT_OK(Search(search)) << "after a restart";
  EXPECT_EQ(Incarnation(), incarnation);

  ServeDir("b");
  MakeRows();
  CommitRow(200);
  const auto other = RefusedWith(kInvalidArgument, "cursor: of another search");
  EXPECT_THAT(Search(search), other) << "collection 1 at epoch 2, as in the other directory";

  Drain();
  ASSERT_OK(store::Store::Restore(dir_ / "snapshots/s", dir_ / "restored"));
  ServeDir("restored");
  CommitRow(300);
  EXPECT_THAT(Search(search), other) << "epoch 2 of another history";
  EXPECT_NE(Incarnation(), incarnation);
}

// Regression: an epoch was only a number. After a restore, other commits satisfied min_epoch, or
// none ever did.
TEST_F(PageCursorIncarnationTest, AnEpochOfAnotherIncarnationIsRefusedAtOnce) {
  ServeDir("a");
  MakeRows();
  const uint64_t known = Incarnation();
  pb::SearchResponse found;
  pb::SearchRequest search = For(1);
  search.set_min_epoch(1);
  search.set_incarnation(known);
  ASSERT_OK(Search(search, &found));
  EXPECT_EQ(found.incarnation(), known);

  const auto refused = RefusedWith(kFailedPrecondition, "incarnation: ");
  search.set_incarnation(known + 1);
  search.set_min_epoch(99);
  EXPECT_THAT(Search(search), refused);
  EXPECT_THAT(All(search).status, refused);
  const auto call = [&](auto method, auto request, auto* response) {
    request.set_collection("c");
    request.set_incarnation(known + 1);
    request.set_min_epoch(99);
    EXPECT_THAT(Call(method, request, response), refused);
    request.set_incarnation(known);
    request.clear_min_epoch();
    EXPECT_OK(Call(method, request, response));
    EXPECT_EQ(response->incarnation(), known);
  };
  const pb::FetchRequest fetch = FromText("ids { numbers: 1 }");
  pb::FetchResponse fetched;
  call(&Retrieval::Fetch, fetch, &fetched);
  pb::CountResponse counted;
  call(&Retrieval::Count, pb::CountRequest(), &counted);

  pb::VerifyRequest verify;
  verify.set_collection("c");
  *verify.mutable_query() = For(1).queries(0);
  verify.set_incarnation(known + 1);
  EXPECT_THAT(Call(&Admin::Verify, verify), refused);
  verify.set_incarnation(known);
  EXPECT_EQ(CallOk(&Admin::Verify, verify).incarnation(), known);
}

}  // namespace
}  // namespace nearfield::server

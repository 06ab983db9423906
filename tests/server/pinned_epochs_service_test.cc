// Tests of PinEpoch, and of reads of an epoch that it keeps.
#include <cstdint>
#include <string>
#include <vector>

#include "server/store/store.h"
#include "tests/server/pages_fixture.h"
#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

class PinnedEpochsServiceTest : public PagesServiceTest {
 protected:
  static constexpr int64_t kRowsCount = 40;

  pb::PinEpochResponse Pin(const std::string& text = "") {
    return CallOk(&Retrieval::PinEpoch, FromText("collection: 'c' " + text));
  }
  // Deletes every row, so that the next epoch has none.
  void DeleteAll() {
    pb::DeleteRequest request;
    request.set_collection("c");
    for (uint64_t id = 0; id < kRowsCount; ++id) request.mutable_ids()->add_numbers(id);
    ASSERT_EQ(CallOk(&Ingest::Delete, request).rows_deleted(), uint64_t{kRowsCount});
  }
  // The replies of all reads, without their cost.
  std::vector<std::string> Replies(std::optional<uint64_t> at_epoch) {
    std::vector<std::string> replies;
    const auto add = [&](const auto& reply) { replies.push_back(reply.ShortDebugString()); };
    const auto at = [&](auto request) {
      request.set_collection("c");
      if (at_epoch) request.set_at_epoch(*at_epoch);
      return request;
    };
    pb::SearchRequest search = For(1, 5);
    search.set_with_digest(true);
    search.set_verify(true);
    pb::SearchResponse found = CallOk(&Retrieval::Search, at(search));
    found.clear_cost();
    add(found);
    const Pages pages = All(at(For(1, 7)));
    EXPECT_OK(pages.status);
    EXPECT_EQ(pages.all.ids.size(), kRowsCount);
    replies.push_back(absl::StrCat(pages.epoch, " ", pages.sizes.size()));
    pb::FetchRequest fetch;
    for (uint64_t id = 0; id < kRowsCount + 2; ++id) fetch.mutable_ids()->add_numbers(id);
    add(CallOk(&Retrieval::Fetch, at(fetch)));
    add(CallOk(&Retrieval::Count, at(pb::CountRequest())));
    pb::CountRequest some;
    some.set_filter_text("id in (1, 3, 5)");
    add(CallOk(&Retrieval::Count, at(some)));
    search = For(1, 5);
    search.set_filter_text("id in (1, 3, 5)");
    found = CallOk(&Retrieval::Search, at(search));
    found.clear_cost();
    add(found);
    grpc::ClientContext context;
    const auto scan = retrieval_->Scan(&context, at(pb::ScanRequest()));
    pb::ScanResponse rows;
    while (scan->Read(&rows)) add(rows);
    EXPECT_OK(scan->Finish());
    return replies;
  }
};

TEST_F(PinnedEpochsServiceTest, EveryReadSeesThePinnedEpoch) {
  ServeCorpus(kRowsCount);
  const std::vector<std::string> before = Replies(std::nullopt);
  const pb::PinEpochResponse pinned = Pin();
  EXPECT_EQ(pinned.epoch(), 1u);
  EXPECT_EQ(pinned.rows_count(), uint64_t{kRowsCount});
  EXPECT_EQ(pinned.incarnation(),
            CallOk(&Admin::GetCollection, Named("c")).collection().incarnation());
  EXPECT_EQ(pinned.kept_ms(), CallOk(&Retrieval::GetLimits).cursor_ms());
  EXPECT_EQ(Replies(pinned.epoch()), before) << "the current epoch";
  DeleteAll();
  CommitRow(1000);
  EXPECT_EQ(CallOk(&Retrieval::Count, Of("c")).rows_count(), 1u);
  EXPECT_EQ(Replies(pinned.epoch()), before);
  EXPECT_EQ(Pin("at_epoch: 1").rows_count(), uint64_t{kRowsCount});
  EXPECT_EQ(Pin().epoch(), 3u);
}

TEST_F(PinnedEpochsServiceTest, PagesGoOnInThePinnedEpoch) {
  ServeCorpus(kRowsCount);
  Pin();
  DeleteAll();
  pb::SearchRequest search = For(1, 7);
  search.set_at_epoch(1);
  search.set_with_cursor(true);
  pb::SearchResponse page;
  ASSERT_OK(Search(search, &page));
  search.set_cursor(page.results(0).next_cursor());
  EXPECT_THAT(Search(search), RefusedWith(kInvalidArgument, "at_epoch: set with a cursor"));
  search.clear_at_epoch();
  pb::SearchResponse next;
  ASSERT_OK(Search(search, &next));
  EXPECT_EQ(next.epoch(), 1u);
  EXPECT_EQ(next.results(0).scores_size(), 7);
}

TEST_F(PinnedEpochsServiceTest, AnEpochThatIsNotKeptIsRefused) {
  ServeCorpus(kRowsCount);
  CommitRow(1000);
  const auto refused = [&](uint64_t epoch, const auto& matcher) {
    pb::SearchRequest search = For(1);
    search.set_at_epoch(epoch);
    EXPECT_THAT(Search(search), matcher);
    EXPECT_THAT(All(search).status, matcher);
    const FromText at("collection: 'c' ids { numbers: 1 } at_epoch: " + std::to_string(epoch));
    EXPECT_THAT(Call(&Retrieval::Fetch, at), matcher);
    const FromText only("collection: 'c' at_epoch: " + std::to_string(epoch));
    EXPECT_THAT(Call(&Retrieval::Count, only), matcher);
    EXPECT_THAT(Call(&Retrieval::PinEpoch, only), matcher);
    grpc::ClientContext context;
    const auto scan = retrieval_->Scan(&context, only);
    EXPECT_THAT(scan->Finish(), matcher);
  };
  refused(1, RefusedWith(kFailedPrecondition, "at_epoch: epoch 1 is kept no longer",
                         "the collection is at epoch 2"));
  refused(3, RefusedWith(kFailedPrecondition, "at_epoch: epoch 3 is not reached"));
  const FromText above("collection: 'c' at_epoch: 2 min_epoch: 3");
  const auto invalid = RefusedWith(kInvalidArgument, "min_epoch: 3, must be at most at_epoch, 2");
  EXPECT_THAT(Call(&Retrieval::Count, above), invalid);
  EXPECT_THAT(Call(&Retrieval::PinEpoch, above), invalid);
  pb::SearchRequest search = For(1);
  search.set_at_epoch(2);
  search.set_min_epoch(3);
  EXPECT_THAT(Search(search), invalid);
  search.set_min_epoch(2);
  EXPECT_OK(Search(search));
  EXPECT_THAT(Call(&Retrieval::PinEpoch, FromText("collection: 'c' incarnation: 1")),
              RefusedWith(kFailedPrecondition, "incarnation: "));
  EXPECT_THAT(Call(&Retrieval::PinEpoch, Of("other")), RefusedWith(kNotFound, "other"));
}

TEST_F(PinnedEpochsServiceTest, ACallerKeepsALimitedNumberOfEpochs) {
  Set(settings_.epochs_kept_max, "2");
  ServeCorpus(kRowsCount);
  for (uint64_t epoch = 1; epoch <= 3; ++epoch) {
    EXPECT_EQ(Pin().epoch(), epoch);
    CommitRow(1000 + epoch);
  }
  const auto at = [](uint64_t epoch) {
    return FromText("collection: 'c' at_epoch: " + std::to_string(epoch));
  };
  EXPECT_THAT(Call(&Retrieval::Count, at(1)), RefusedWith(kFailedPrecondition, "kept no longer"));
  EXPECT_EQ(CallOk(&Retrieval::Count, at(2)).rows_count(), uint64_t{kRowsCount} + 1);
  EXPECT_EQ(CallOk(&Retrieval::Count, at(3)).rows_count(), uint64_t{kRowsCount} + 2);
}

TEST_F(PinnedEpochsServiceTest, ADroppedCollectionKeepsNoEpoch) {
  ServeCorpus(kRowsCount);
  Pin();
  DeleteAll();
  PinnedSnapshotCache& kept = server_->state().core()->pinned_snapshots;
  ASSERT_EQ(kept.epochs_count(), 1);
  ASSERT_GT(kept.bytes().device, 0);
  pb::DropCollectionRequest drop;
  drop.set_name("c");
  ASSERT_OK(Call(&Admin::DropCollection, drop));
  EXPECT_EQ(kept.epochs_count(), 0);
  EXPECT_EQ(kept.bytes().device, 0);
}

TEST_F(PinnedEpochsServiceTest, PinsGiveWayToUploadsBeyondTheirShareOfTheMemory) {
  Set(settings_.epochs_kept_percent, "0");
  ServeCorpus(kRowsCount);
  Pin();
  pb::UploadRequest begin = Begin("c", 1);
  begin.mutable_begin()->set_mode(pb::UPLOAD_MODE_REPLACE);
  ASSERT_OK(Send({begin, Commit()}));
  EXPECT_THAT(Call(&Retrieval::PinEpoch, FromText("collection: 'c' at_epoch: 1")),
              RefusedWith(kFailedPrecondition, "is kept no longer"));
}

TEST_F(PinnedEpochsServiceTest, ARestartKeepsTheCurrentEpochAlone) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  ServeCorpus(kRowsCount);
  Pin();
  CommitRow(1000);
  Drain();
  Serve();
  EXPECT_THAT(Call(&Retrieval::Count, FromText("collection: 'c' at_epoch: 1")),
              RefusedWith(kFailedPrecondition, "is kept no longer"));
  EXPECT_EQ(CallOk(&Retrieval::Count, FromText("collection: 'c' at_epoch: 2")).rows_count(),
            uint64_t{kRowsCount} + 1);
}

// Regression: the rows of the current epoch counted.
TEST_F(PinnedEpochsServiceTest, AReplyAtAnEarlierEpochIsMeasuredByItsRows) {
  Set(settings_.response_bytes_max, "1MiB");
  Serve();
  ASSERT_OK(CreateCollection("c", 1));
  ASSERT_OK(UploadRange(0, 1));
  const uint64_t epoch = Pin().epoch();
  ASSERT_OK(UploadRange(1, 5000));
  pb::SearchRequest search = For(1, 4096);
  for (int i = 0; i < 63; ++i) *search.add_queries() = search.queries(0);
  EXPECT_THAT(Search(search), RefusedWith(kResourceExhausted, "the reply would have"));
  search.set_at_epoch(epoch);
  EXPECT_EQ(CallOk(&Retrieval::Search, search).results_size(), 64);
}

}  // namespace
}  // namespace nearfield::server

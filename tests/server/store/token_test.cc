// Tests upload tokens: how long they are remembered for any clock values, and what they report.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/commit_times.h"
#include "server/store/store.h"
#include "tests/server/store/model_store.h"

namespace nearfield::store {
namespace {

class StoreTokenTest : public ::testing::Test {
 protected:
  StoreTokenTest() : tested_(dir_ / "data") { id_ = tested_.Create("a", 1); }
  Store& store() { return tested_.store(); }
  UploadKey Key(const std::string& token) const { return {.collection_id = id_, .token = token}; }
  // Commits an upload without rows.
  void CommitEmpty(const BeginUploadOptions& options, uint64_t epoch = 0) {
    ASSERT_OK_AND_ASSIGN(const auto writer, store().BeginUpload(id_, options));
    ASSERT_OK(store().CommitUpload(writer.get(), {.epoch = epoch}));
  }

  const TempDir dir_;
  ModelStore tested_;
  int64_t id_ = 0;
};

// A store with two clocks that the test sets.
class StoreTokenClockTest : public StoreTokenTest {
 protected:
  StoreTokenClockTest() {
    options_ = tested_.Options();
    options_.unix_seconds = [this] { return unix_s_; };
    options_.steady_seconds = [this] { return steady_s_; };
    options_.upload_idle_s_max = kDay;
    OpenAgain();
  }
  ~StoreTokenClockTest() override { tested_.Close(); }  // it uses the clocks

  void OpenAgain() { tested_.Reopen(options_); }
  void BothClocks(int64_t seconds) {
    unix_s_ += seconds;
    steady_s_ += seconds;
  }
  // Begins another upload with a token, which removes idle ones.
  void Sweep() { EXPECT_OK(store().BeginUpload(id_, {.token = absl::StrCat("sweep", ++sweeps_)})); }
  bool IsThere(const std::string& token) { return store().GetUpload(Key(token)).ok(); }

  static constexpr int64_t kDay = 24 * 3600;
  StoreOptions options_;
  int64_t unix_s_ = 1'700'000'000;
  int64_t steady_s_ = 50;
  int sweeps_ = 0;
};

// When the clock jumped ahead by eight days, every open upload was dropped.
TEST_F(StoreTokenClockTest, AClockThatJumpsAheadDropsNoOpenUpload) {
  ASSERT_OK(store().BeginUpload(id_, {.token = "t"}));
  unix_s_ += 8 * kDay;
  Sweep();
  EXPECT_TRUE(IsThere("t"));
  OpenAgain();
  Sweep();
  EXPECT_TRUE(IsThere("t"));
  ASSERT_OK(store().ResumeUpload(Key("t"), [](const StoredBlock&) { return absl::OkStatus(); }));
  BothClocks(kDay);
  Sweep();
  EXPECT_TRUE(IsThere("t"));
  BothClocks(1);
  Sweep();
  EXPECT_FALSE(IsThere("t"));
}

// For an upload of an earlier process only the system clock measures the age. It is kept for an
// hour, so that it can be resumed.
TEST_F(StoreTokenClockTest, AnUploadOfAnEarlierProcessIsKeptForAnHour) {
  ASSERT_OK(store().BeginUpload(id_, {.token = "t"}));
  BothClocks(kDay + 1);
  OpenAgain();
  BothClocks(3600);
  Sweep();
  EXPECT_TRUE(IsThere("t"));
  BothClocks(1);
  Sweep();
  EXPECT_FALSE(IsThere("t"));
}

// After the clock was set back, the newest upload seemed idle for longest. It was dropped to make
// room for the next one while its client still sent rows, and it was listed first.
TEST_F(StoreTokenClockTest, TheUploadUntouchedForLongestGivesWayWhateverTheClockSays) {
  options_.uploads_open_max = 2;
  for (const bool restart : {false, true}) {
    OpenAgain();
    ASSERT_OK(store().BeginUpload(id_, {.token = "first"}));
    unix_s_ -= 3600;
    steady_s_ += 7;
    ASSERT_OK(store().BeginUpload(id_, {.token = "second"}));
    const std::vector<OpenUpload> open = store().OpenUploads();
    ASSERT_EQ(open.size(), 2u);
    EXPECT_EQ(open[0].token, "first");
    EXPECT_EQ(open[0].untouched_s, 7);
    EXPECT_EQ(open[1].untouched_s, 0);
    if (restart) OpenAgain();
    ASSERT_OK(store().BeginUpload(id_, {.token = "third"}));
    EXPECT_FALSE(IsThere("first"));
    EXPECT_TRUE(IsThere("second"));
    for (const OpenUpload& upload : store().OpenUploads()) {
      ASSERT_OK(store().DropUpload(Key(upload.token)));
    }
  }
}

// After the clock was set back by an hour, the newest commit seemed the oldest. Its token was
// forgotten first, and the retry after a lost reply ran the upload again.
TEST_F(StoreTokenClockTest, TheTokensOfTheLastCommitsAreKeptWhateverTheClockSays) {
  options_.tokens_committed_max = 3;
  OpenAgain();
  ASSERT_OK_AND_ASSIGN(auto early,
                       store().BeginUpload(id_, {.token = "begun first, committed last"}));
  CommitEmpty({.token = "a"});
  CommitEmpty({.token = "b"});
  unix_s_ -= 3600;
  CommitEmpty({.token = "c"});
  ASSERT_OK(store().CommitUpload(early.get(), {.epoch = 0}));
  early.reset();
  EXPECT_FALSE(IsThere("a"));
  OpenAgain();
  CommitEmpty({.token = "d"});
  EXPECT_FALSE(IsThere("b"));
  EXPECT_TRUE(IsThere("c"));
  EXPECT_TRUE(IsThere("begun first, committed last"));
  EXPECT_TRUE(IsThere("d"));
  EXPECT_OK(store().Verify());
}

// A stranger's commit under a token blocked the upload of its owner: all collections had one name
// space of tokens.
TEST_F(StoreTokenTest, EachCollectionHasItsOwnTokens) {
  const int64_t other = tested_.Create("b", 1);
  CommitEmpty({.token = "committed"});
  ASSERT_OK(store().BeginUpload(id_, {.token = "open"}));
  for (const std::string token : {"committed", "open"}) {
    const UploadKey theirs = {.collection_id = other, .token = token};
    EXPECT_THAT(store().GetUpload(theirs), StatusIs(kNotFound));
    EXPECT_THAT(store().DropUpload(theirs), StatusIs(kNotFound));
    EXPECT_THAT(store().ResumeUpload(theirs, [](const StoredBlock&) { return absl::OkStatus(); }),
                StatusIs(kNotFound));
    ASSERT_OK_AND_ASSIGN(const auto writer, store().BeginUpload(other, {.token = token}));
    ASSERT_OK(store().CommitUpload(writer.get(), {.epoch = 0}));
    EXPECT_OK(store().GetUpload(theirs));
    EXPECT_OK(store().GetUpload(Key(token)));
  }
  EXPECT_EQ(store().GetUpload(Key("open"))->state, UploadState::kOpen);
  tested_.Reopen();
  EXPECT_EQ(store().GetUpload(Key("open"))->state, UploadState::kOpen);
  EXPECT_EQ(store().GetUpload({.collection_id = other, .token = "open"})->state,
            UploadState::kCommitted);
  ASSERT_OK(store().DropUpload(Key("open")));
  EXPECT_THAT(store().GetUpload(Key("open")), StatusIs(kNotFound));
  EXPECT_OK(store().GetUpload({.collection_id = other, .token = "open"}));
  EXPECT_OK(store().Verify());
}

// Ten thousand commits into other collections made a token forgotten. Its upload ran again, and
// overwrote a newer row.
TEST_F(StoreTokenClockTest, CommitsIntoOtherCollectionsForgetNoToken) {
  options_.tokens_committed_max = 3;
  OpenAgain();
  const int64_t other = tested_.Create("b", 1);
  CommitEmpty({.token = "mine"});
  for (int i = 0; i < 20; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto writer,
                         store().BeginUpload(other, {.token = absl::StrCat("flood", i)}));
    ASSERT_OK(store().CommitUpload(writer.get(), {.epoch = 0}));
  }
  EXPECT_TRUE(IsThere("mine"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(store().GetUpload({.collection_id = other, .token = absl::StrCat("flood", i)}).ok(),
              i >= 17);
  }
  OpenAgain();
  EXPECT_TRUE(IsThere("mine"));
}

TEST_F(StoreTokenClockTest, ACommittedTokenIsRememberedForItsTime) {
  options_.token_committed_s_max = kDay;
  OpenAgain();
  CommitEmpty({.token = "a"});
  BothClocks(kDay / 2);
  CommitEmpty({.token = "b"});
  BothClocks(kDay / 2);
  CommitEmpty({.token = "c"});
  EXPECT_TRUE(IsThere("a"));
  // The times of commits are known to a thousandth of the time for which tokens are remembered.
  BothClocks(kDay / CommitTimes::kParts + 1);
  CommitEmpty({.token = "d"});
  EXPECT_FALSE(IsThere("a"));
  EXPECT_TRUE(IsThere("b"));
  EXPECT_TRUE(IsThere("c"));
}

// A clock that jumps ahead makes no token forgotten: the retry after a lost reply would run again.
TEST_F(StoreTokenClockTest, AClockThatJumpsAheadForgetsNoCommittedToken) {
  options_.token_committed_s_max = kDay;
  OpenAgain();
  steady_s_ += 2 * kDay;  // the store has been open for longer than tokens are remembered
  CommitEmpty({.token = "a"});
  unix_s_ += 8 * kDay;
  CommitEmpty({.token = "b"});
  EXPECT_TRUE(IsThere("a"));
  // Only the system clock has the age of an earlier process. Its tokens stay for an hour.
  OpenAgain();
  BothClocks(3600);
  CommitEmpty({.token = "c"});
  EXPECT_TRUE(IsThere("a"));
  BothClocks(1);
  CommitEmpty({.token = "d"});
  EXPECT_FALSE(IsThere("a"));
  EXPECT_TRUE(IsThere("b")) << "committed after the jump";
}

// A repeated token was always answered with rows_replaced 0.
TEST_F(StoreTokenTest, ACommittedTokenTellsWhatItReplaced) {
  ASSERT_OK(tested_.Upload("a", 1));
  const auto rows = static_cast<int64_t>(tested_.model().collections.at("a").rows.size());
  const uint64_t epoch = tested_.model().collections.at("a").epoch;
  CommitEmpty({.mode = UploadMode::kReplace, .token = "t"}, epoch + 1);
  for (int start = 0; start < 2; ++start) {
    ASSERT_OK_AND_ASSIGN(const auto facts, store().GetUpload(Key("t")));
    EXPECT_EQ(facts.rows_replaced, rows);
    EXPECT_EQ(facts.rows_count, 0);
    EXPECT_EQ(facts.epoch, epoch + 1);
    tested_.Reopen();
  }
  EXPECT_THAT(store().DropUpload(Key("t")).status(),
              FailsWith(kFailedPrecondition, "was committed"));
  EXPECT_OK(store().Verify());
  ASSERT_OK(store().DropCollection(id_));
  tested_.Reopen();
}

// Only the last step kept the bytes free that deletes need. Uploads that exceeded their declared
// size, and compactions, filled the disk.
TEST_F(StoreTokenTest, AnUploadLeavesTheFreeBytesThatItDidNotDeclare) {
  StoreOptions options = tested_.Options();
  options.free_bytes_min = int64_t{1} << 60;
  tested_.Reopen(options);
  EXPECT_THAT(store().BeginUpload(id_, {}), FailsWith(kResourceExhausted, "stay free for deletes"));
  EXPECT_TRUE(store().OpenUploads().empty());
}

}  // namespace
}  // namespace nearfield::store

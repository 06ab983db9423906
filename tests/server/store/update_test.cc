// Tests of updates in the store: patches that a load applies and a compaction folds, and tokens.
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/seed.h"

namespace nearfield::store {
namespace {

class StoreUpdateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tested_.Create("a", 1);
    // Until there are enough rows.
    for (int64_t number = 1; RowsCount() < 50; ++number) ASSERT_OK(tested_.Upload("a", number));
  }

  size_t RowsCount() { return tested_.model().collections.at("a").rows.size(); }
  int64_t id() { return tested_.IdOf("a"); }
  absl::StatusOr<CompactionResult> Compact(const CompactOptions& options = AllSegments()) {
    return tested_.store().Compact(id(), options);
  }

  const TempDir dir_;
  ModelStore tested_{dir_ / "data"};
};

TEST_F(StoreUpdateTest, ALoadAppliesTheNewestPatches) {
  for (int64_t number = 1; number < 40; ++number) {
    ASSERT_OK(tested_.Update("a", number));
    if (number % 5 == 0) tested_.Reopen();
    ASSERT_TRUE(tested_.Same()) << number;
  }
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreUpdateTest, ACompactionFoldsPatchesAndKeepsThoseOfOtherSegments) {
  for (int64_t round = 0; round < 20; ++round) {
    for (int64_t i = 0; i < 5; ++i) ASSERT_OK(tested_.Update("a", 100 * round + i));
    ASSERT_OK(tested_.Delete("a", 100 * round + 50));
    ASSERT_OK(tested_.Upload("a", 1000 + round));
    ASSERT_OK(tested_.Update("a", 100 * round + 60));
    // Only some segments, or all of them.
    const bool all = round % 3 == 0;
    ASSERT_OK(Compact(all ? AllSegments() : CompactOptions{.dead_share_max = 0.5}));
    ASSERT_TRUE(tested_.Same()) << round;
    tested_.Reopen();
    ASSERT_TRUE(tested_.Same()) << round;
    if (all) {
      const auto again = Compact({.dead_share_max = 0});
      ASSERT_OK(again);
      EXPECT_EQ(again->segments_before, again->segments_after);
      EXPECT_EQ(again->ids_dropped, 0) << "no patch was left";
    }
  }
  EXPECT_OK(tested_.store().Verify());
}

// A counter that is updated without end leaves one patch, not one for each update.
TEST_F(StoreUpdateTest, PatchesOfOneRowAreJoined) {
  const IdColumn ids = [&] {
    IdColumn one(tested_.model().collections.at("a").spec.id_type);
    one.Append(tested_.model().collections.at("a").rows.begin()->first);
    return one;
  }();
  BytesColumn attributes;
  attributes.Append("value");
  const int64_t before = tested_.store().DiskBytes(id());
  // Dead rows and small segments are no reason.
  const CompactOptions rarely = {.dead_share_max = 1e6, .small_segments_min = 1000};
  int64_t updates = 0;
  while (!tested_.store().CompactionDue(id(), rarely)) {
    ASSERT_LT(++updates, 10'000);
    fault::ModelCollection& collection = tested_.model().collections.at("a");
    ASSERT_OK(tested_.store().CommitUpdates(
        id(), {{{.epoch = ++collection.epoch, .ids = &ids, .attributes = &attributes}}}));
  }
  tested_.model().collections.at("a").rows.begin()->second.attributes = "value";
  ASSERT_OK_AND_ASSIGN(const CompactionResult result, Compact(rarely));
  EXPECT_EQ(result.segments_after, result.segments_before) << "no segment was rewritten";
  EXPECT_EQ(result.ids_dropped, updates - 1);
  EXPECT_FALSE(tested_.store().CompactionDue(id(), rarely));
  EXPECT_LT(tested_.store().DiskBytes(id()), before + 200);
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreUpdateTest, ARowThatIsUploadedAgainHasNoOldPatch) {
  for (int64_t number = 1; number < 10; ++number) {
    ASSERT_OK(tested_.Update("a", number));
    ASSERT_OK(tested_.Delete("a", number));
    ASSERT_OK(tested_.Upload("a", number));  // may bring deleted ids back
    tested_.Reopen();
    ASSERT_TRUE(tested_.Same()) << number;
  }
}

TEST_F(StoreUpdateTest, UpdatesThatDoNotFollowAreRefused) {
  fault::ModelCollection& collection = tested_.model().collections.at("a");
  IdColumn ids(collection.spec.id_type);
  ids.Append(collection.rows.begin()->first);
  BytesColumn attributes;
  attributes.Append("x");
  const auto commit = [&](uint64_t epoch, const BytesColumn* values) {
    return tested_.store().CommitUpdates(id(),
                                         {{{.epoch = epoch, .ids = &ids, .attributes = values}}});
  };
  EXPECT_THAT(commit(collection.epoch, &attributes), StatusIs(kFailedPrecondition));
  EXPECT_THAT(commit(collection.epoch + 2, &attributes), StatusIs(kFailedPrecondition));
  attributes.Append("y");
  EXPECT_THAT(commit(collection.epoch + 1, &attributes), StatusIs(kInvalidArgument));
  EXPECT_THAT(tested_.store().CommitUpdates(999, {{{.epoch = 1, .ids = &ids}}}),
              StatusIs(kNotFound));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreUpdateTest, TheNewestTokensAreRemembered) {
  const int64_t other = tested_.Create("b", 2);
  ASSERT_OK(tested_.Upload("b", 1));
  for (int64_t number = 1; number <= 20; ++number) {
    ASSERT_OK(tested_.Update("a", number, absl::StrCat("t", number)));
  }
  tested_.Reopen();
  for (int64_t number = 1; number <= 20; ++number) {
    const std::string token = absl::StrCat("t", number);
    ASSERT_OK_AND_ASSIGN(const auto reply, tested_.store().FindUpdate(tested_.Key("a", token)));
    EXPECT_EQ(reply, "reply of " + token);
    ASSERT_OK_AND_ASSIGN(const auto none,
                         tested_.store().FindUpdate({.collection_id = other, .token = token}));
    EXPECT_EQ(none, std::nullopt);
  }
  EXPECT_OK(tested_.store().Verify());
}

TEST_F(StoreUpdateTest, RepliesBeyondTheirBytesAreForgottenOldestFirst) {
  fault::ModelCollection& collection = tested_.model().collections.at("a");
  IdColumn ids(collection.spec.id_type);
  ids.Append(collection.rows.begin()->first);
  BytesColumn attributes;
  attributes.Append(collection.rows.begin()->second.attributes);
  const auto update = [&](const std::string& token, int64_t reply_bytes) {
    return tested_.store().CommitUpdates(
        id(), {{{.epoch = ++collection.epoch,
                 .ids = &ids,
                 .attributes = &attributes,
                 .token = token,
                 .reply = std::string(static_cast<size_t>(reply_bytes), 'r')}}});
  };
  const auto known = [&](const std::string& token) {
    return tested_.store().FindUpdate(tested_.Key("a", token))->has_value();
  };
  ASSERT_OK(update("first", 10));
  ASSERT_OK(update("second", kUpdateReplyBytesMax - 20));
  EXPECT_TRUE(known("first"));
  ASSERT_OK(update("third", 20));
  EXPECT_FALSE(known("first"));
  EXPECT_TRUE(known("second"));
  ASSERT_OK(update("fourth", kUpdateReplyBytesMax));
  EXPECT_FALSE(known("third"));
  EXPECT_TRUE(known("fourth"));
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreUpdateTest, ADropAndAReplacementRemoveThePatches) {
  ASSERT_OK(tested_.Update("a", 1, "t"));
  ASSERT_OK(tested_.store().DropCollection(id()));
  tested_.model().Apply({.kind = fault::Operation::Kind::kDrop, .collection = "a"});
  EXPECT_OK(tested_.store().Verify());
  tested_.Reopen();
  EXPECT_TRUE(tested_.Same());
}

TEST_F(StoreUpdateTest, ASchemaIsReplacedAsOneEpoch) {
  fault::ModelCollection& collection = tested_.model().collections.at("a");
  EXPECT_THAT(tested_.store().CommitSchema(id(), collection.epoch, "s"),
              StatusIs(kFailedPrecondition));
  ASSERT_OK(tested_.store().CommitSchema(id(), ++collection.epoch, "another schema"));
  tested_.Reopen();
  EXPECT_EQ(tested_.store().Collections().front().attribute_schema, "another schema");
  EXPECT_TRUE(tested_.Same());
}

}  // namespace
}  // namespace nearfield::store

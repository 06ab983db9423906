// Tests of records: complete, bounded, and with all that a repetition of the check needs.
#include "server/audit/record.h"

#include "server/audit/record_folder.h"
#include "tests/server/audit/audit_fixture.h"

namespace nearfield::server {
namespace {

TEST(RecordFolderTest, TakesABoundedNumberAndNothingTooLarge) {
  const store::TempDir place;
  RecordFolder folder(place / "audit");
  EXPECT_EQ(folder.Count(), 0);
  EXPECT_THAT(folder.Write(std::string(kRecordBytesMax + 1, 'x'), 5),
              FailsWith(kResourceExhausted, "16777217 bytes"));
  std::set<std::string> paths;
  for (int64_t i = 0; i < kRecordsMax; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto path, folder.Write("{}\n", 5));
    paths.insert(path);
  }
  EXPECT_THAT(paths, SizeIs(kRecordsMax));
  EXPECT_EQ(*paths.begin(), place / "audit/audit-5-1.json");
  EXPECT_THAT(folder.Write("{}\n", 6), FailsWith(kResourceExhausted, "holds 100 records"));
  EXPECT_EQ(RecordFolder(place / "audit").Count(), kRecordsMax);
  for (const auto& entry : std::filesystem::directory_iterator(place / "audit")) {
    EXPECT_EQ(entry.path().extension(), ".json");
  }
}

TEST(RecordFolderTest, WithoutAPlaceNothingIsKept) {
  RecordFolder none("");
  EXPECT_THAT(none.Write("{}", 1), StatusIs(kFailedPrecondition));
  EXPECT_EQ(none.Count(), 0);
  const store::TempDir place;
  RecordFolder lost(place / "not/there");
  EXPECT_THAT(lost.Write("{}", 1), StatusIs(kNotFound));
}

class RecordTest : public AuditFixture {
 protected:
  nlohmann::json Record(const Query& query, const Neighbors& answer,
                        const std::shared_ptr<Collection>& collection) {
    const AuditedAnswer audited = {.collection_name = "docs",
                                   .collection = collection,
                                   .at = collection->PinEpoch(),
                                   .query = OwnedQuery(query),
                                   .answer = answer};
    const auto verdict = AskOracle(*fake_.engine, audited, nullptr);
    EXPECT_OK(verdict);
    EXPECT_FALSE(verdict->equal);
    return nlohmann::json::parse(EncodeRecord({.server_version = "9", .unix_seconds = 3},
                                              {.audited = audited, .verdict = *verdict}));
  }
};

TEST_F(RecordTest, HoldsFilterThresholdSkipAndTheRowOfAQueryById) {
  const std::shared_ptr<Collection> collection = CollectionOf({10, 11, 12}, {4, 3, 2});
  auto filter = std::make_shared<RowFilter>();
  filter->chosen = {0b110};
  Neighbors wrong;
  wrong.ids = testing::Ids({12});
  wrong.scores = {1};
  const nlohmann::json record = Record(
      {.row_id = Id(uint64_t{10}), .k = 2, .filter = filter, .score_threshold = -1.0f, .skip = 1},
      wrong, collection);
  EXPECT_EQ(record["query"], (nlohmann::json{{"row_id", 10}}));
  EXPECT_EQ(record["skip"], 1);
  EXPECT_EQ(record["score_min_bits"], "bf800000");
  EXPECT_EQ(record["filter"]["rows_chosen"], 2);
  EXPECT_EQ(record["filter"]["ordinal_bits"], "0600000000000000");
  EXPECT_EQ(record["rows"][0]["id"], 10);  // the row with the query's vector
  EXPECT_EQ(record["expected"]["ids"], nlohmann::json({12}));
}

TEST_F(RecordTest, AGreatFilterIsNamedByItsDigest) {
  const std::shared_ptr<Collection> collection = CollectionOf({10}, {4});
  auto filter = std::make_shared<RowFilter>();
  filter->chosen.assign(kRecordFilterBytesMax / 8 + 1, ~uint64_t{0});
  Neighbors wrong;
  const std::vector<float> vector = {1, 0};
  const nlohmann::json record =
      Record({.vector = vector, .row_id = {}, .k = 1, .filter = filter}, wrong, collection);
  EXPECT_EQ(record["filter"]["ordinal_bytes"], kRecordFilterBytesMax + 8);
  EXPECT_EQ(record["filter"]["ordinal_sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(record["filter"].contains("ordinal_bits"));
}

TEST_F(RecordTest, TextIdsOfAnyKindAreWholeJson) {
  const std::shared_ptr<Collection> collection =
      *fake_.engine->CreateCollection({.dim = 1, .id_type = IdType::kString});
  testing::Corpus rows;
  rows.spec = collection->spec();
  rows.ids = IdColumn(IdType::kString);
  rows.ids.AppendString("a\"\n\xc3\xa4");
  const float one = 1;
  rows.rows.assign(reinterpret_cast<const uint8_t*>(&one),
                   reinterpret_cast<const uint8_t*>(&one) + 4);
  ASSERT_OK(UploadAll(*collection, rows));
  Neighbors wrong;
  wrong.ids = IdColumn(IdType::kString);
  const std::vector<float> vector = {1};
  const nlohmann::json record = Record({.vector = vector, .row_id = {}, .k = 1}, wrong, collection);
  EXPECT_EQ(record["expected"]["ids"][0], "a\"\n\xc3\xa4");
}

}  // namespace
}  // namespace nearfield::server

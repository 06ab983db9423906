// Tests of conversion between proto and native types: total on any message, exact where it accepts.
// Also tests the states of an upload without a stream.
#include <google/protobuf/stubs/logging.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/convert/admin.h"
#include "server/convert/cursor.h"
#include "server/convert/ingest.h"
#include "server/convert/retrieval.h"
#include "server/convert/text.h"
#include "server/rpc/upload_session.h"
#include "tests/server/prelude.h"
#include "tests/testing/scripted_engine.h"
#include "tests/testing/seed.h"
#include "tests/testing/text_message.h"

namespace nearfield::server {
namespace {

using testing::FromText;

constexpr RequestLimits kLimits = {.k_max = 100,
                                   .queries_max = 4,
                                   .fetch_ids_max = 5,
                                   .response_bytes_max = 1 << 20,
                                   .payload_bytes_max = 16,
                                   .upload_block_bytes_max = 1 << 20};

std::shared_ptr<Collection> NewCollection(const CollectionSpec& spec) {
  static const auto* const engine = new std::unique_ptr<Engine>(
      testing::MakeScriptedEngine(std::make_shared<testing::EngineScript>()));
  return *(*engine)->CreateCollection(spec);
}

TEST(Utf8Test, AcceptsWellFormedAndRefusesTheRest) {
  for (const std::string& text :
       {std::string("a"), std::string("\xc3\xa4"), std::string("\xe2\x82\xac"),
        std::string("\xf0\x9f\x98\x80"), std::string("\xf4\x8f\xbf\xbf"),
        std::string("\xed\x9f\xbf"), std::string("\0", 1), std::string()}) {
    EXPECT_TRUE(IsUtf8(text)) << Quote(text);
  }
  for (const char* text :
       {"\x80", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xe2\x82", "\xe2\x28\xa1"}) {
    EXPECT_FALSE(IsUtf8(text)) << Quote(text);
  }
}

TEST(SearchConvertTest, SpansPointAtTheValuesAlsoAfterAMove) {
  const auto collection = NewCollection({.dim = 2});
  const pb::SearchRequest request = FromText(
      "queries { vector { values: [1, -1] } } queries { vector { values: [2, -2] } } "
      "queries { row_id { number: 5 } } k: 7");
  absl::StatusOr<SearchRequest> native = FromProto(request, collection, kLimits);
  ASSERT_OK(native);
  const SearchRequest moved = *std::move(native);
  ASSERT_EQ(moved.queries.size(), 3u);
  EXPECT_THAT(moved.queries[0].vector, ElementsAre(1.0f, -1.0f));
  EXPECT_THAT(moved.queries[1].vector, ElementsAre(2.0f, -2.0f));
  EXPECT_EQ(moved.queries[1].vector.data(), moved.values.data() + 2);
  EXPECT_TRUE(moved.queries[2].vector.empty());
  EXPECT_EQ(moved.queries[2].row_id, Id(uint64_t{5}));
  EXPECT_EQ(moved.queries[2].k, 7);
}

TEST(SearchConvertTest, NegativeZeroAloneHasNoCosineButADenormalHas) {
  const auto collection = NewCollection({.dim = 2, .metric = Metric::kCosine});
  pb::SearchRequest request = FromText("queries { vector { values: [-0.0, 0] } }");
  EXPECT_THAT(FromProto(request, collection, kLimits), StatusIs(kInvalidArgument));
  request.mutable_queries(0)->mutable_vector()->set_values(0, 1e-45f);
  EXPECT_OK(FromProto(request, collection, kLimits));
}

TEST(SearchConvertTest, TheDefaultKFollowsALowerLimit) {
  RequestLimits limits = kLimits;
  limits.k_max = 3;
  EXPECT_EQ(*KFromProto(false, 0, limits), 3);
  EXPECT_EQ(*KFromProto(false, 0, kLimits), 10);
}

TEST(SearchConvertTest, TheLeastTimeOfAReadIsRoundedUpAndNothingWhereTheRateIsUnknown) {
  EXPECT_EQ(ReadNsMin(4'500'000'000, 4.5e12), 1'000'000u);
  EXPECT_EQ(ReadNsMin(1, 4.5e12), 1u);
  EXPECT_EQ(ReadNsMin(0, 4.5e12), 0u);
  EXPECT_EQ(ReadNsMin(1, 0), 0u);
  EXPECT_EQ(ReadNsMin(1, -1), 0u);
  EXPECT_EQ(ReadNsMin(1, std::nan("")), 0u);
  EXPECT_EQ(ReadNsMin(INT64_MAX, 1e-300), uint64_t{1} << 63);
}

TEST(SearchConvertTest, TheLeastReplyIsNeverMoreThanTheReply) {
  const auto collection = NewCollection({.dim = 8});
  SearchRequest request;
  request.collection = collection;
  request.parts = {.vectors = true, .payloads = true};
  for (const int k : {1, 5, 20}) request.queries.push_back({.k = k});
  SearchReply reply;
  for (const int k : {1, 5, 6}) {  // the collection has 6 rows
    Neighbors neighbors;
    for (int i = 0; i < k; ++i) {
      neighbors.ids.AppendNumber(static_cast<uint64_t>(i));
      neighbors.scores.push_back(0);
      neighbors.rows.insert(neighbors.rows.end(), 32, 0);
      neighbors.payloads.Append("");
    }
    reply.result.queries.push_back(std::move(neighbors));
  }
  pb::SearchResponse response;
  ToProto(collection->spec(), request.parts, std::move(reply), &response);
  const int64_t least = ReplyBytesMin(request, 6);
  EXPECT_LE(least, static_cast<int64_t>(response.ByteSizeLong()));
  EXPECT_GE(least, static_cast<int64_t>(response.ByteSizeLong()) / 2);
}

// Any bytes that parse are accepted, or rejected with a printable message.
template <typename Message, typename Convert>
void FeedRandom(uint64_t seed, const Convert& convert) {
  std::mt19937_64 random(seed);
  int parsed = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 48, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 32);
    Message message;
    if (!message.ParsePartialFromString(bytes)) continue;
    ++parsed;
    const absl::Status status = convert(message);
    for (const char c : std::string(status.message())) ASSERT_TRUE(c >= ' ' && c < 0x7f) << status;
    ASSERT_EQ(status.message().empty(), status.ok());
  }
  EXPECT_GT(parsed, 100);
}

TEST(ConvertFuzzTest, IsTotalOnAnyMessage) {
  google::protobuf::SetLogHandler(nullptr);  // texts that are not UTF-8 are expected here
  const uint64_t seed = nearfield::testing::TestSeed();
  for (const IdType id_type : {IdType::kUint64, IdType::kString}) {
    const auto collection = NewCollection(
        {.dim = 2, .metric = Metric::kCosine, .row_type = RowType::kFloat16, .id_type = id_type});
    const CollectionSpec& spec = collection->spec();
    FeedRandom<pb::SearchRequest>(
        seed, [&](const auto& m) { return FromProto(m, collection, kLimits).status(); });
    FeedRandom<pb::VerifyRequest>(
        seed, [&](const auto& m) { return FromProto(m, collection, kLimits).status(); });
    FeedRandom<pb::UploadBegin>(seed, [](const auto& m) { return FromProto(m).status(); });
    FeedRandom<pb::UploadBlock>(seed, [&](const auto& m) {
      UploadTotals totals{.declared = {.rows_max = 3, .payload_bytes_max = 8}};
      const absl::Status status = FromProto(m, spec, kLimits, &totals).status();
      EXPECT_EQ(totals.rows > 0, status.ok());
      EXPECT_LE(totals.rows, 3);
      return status;
    });
    FeedRandom<pb::DeleteRequest>(
        seed, [&](const auto& m) { return FromProto(m, spec, kLimits).status(); });
    FeedRandom<pb::CreateCollectionRequest>(seed,
                                            [](const auto& m) { return FromProto(m).status(); });
    FeedRandom<pb::IdList>(seed, [&](const auto& m) {
      const auto ids = IdsFromProto("ids", m, id_type, {.min = 0, .max = 5});
      if (!ids.ok()) return ids.status();
      pb::IdList back;
      IdsToProto(*ids, &back);
      EXPECT_EQ(back.SerializeAsString().size() >= static_cast<size_t>(IdListBytesMin(*ids)), true);
      EXPECT_EQ(std::vector<uint64_t>(m.numbers().begin(), m.numbers().end()),
                std::vector<uint64_t>(back.numbers().begin(), back.numbers().end()));
      EXPECT_EQ(std::vector<std::string>(m.texts().begin(), m.texts().end()),
                std::vector<std::string>(back.texts().begin(), back.texts().end()));
      return absl::OkStatus();
    });
  }
}

TEST(EnumConvertTest, EveryValueComesBack) {
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2})
    EXPECT_EQ(MetricFromProto(ToProto(metric)), metric);
  for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16})
    EXPECT_EQ(RowTypeFromProto(ToProto(type)), type);
  for (const IdType type : {IdType::kUint64, IdType::kString})
    EXPECT_EQ(IdTypeFromProto(ToProto(type)), type);
  for (const ScanChoice scan :
       {ScanChoice::kAuto, ScanChoice::kInt8, ScanChoice::kRows, ScanChoice::kInt16}) {
    EXPECT_EQ(ScanChoiceFromProto(ToProto(scan)), scan);
    EXPECT_EQ(static_cast<int>(scan), static_cast<int>(ToProto(scan))) << "one set of numbers";
  }
  for (const RowPlacement rows : {RowPlacement::kDevice, RowPlacement::kHost})
    EXPECT_EQ(RowPlacementFromProto(ToProto(rows)), rows);
  EXPECT_EQ(ToProto(ScanPrecision::kInt8), pb::SCAN_PRECISION_INT8);
  EXPECT_EQ(ToProto(ScanPrecision::kRows), pb::SCAN_PRECISION_ROWS);
  EXPECT_EQ(MetricFromProto(static_cast<pb::Metric>(99)), std::nullopt);
  EXPECT_EQ(ScanChoiceFromProto(static_cast<pb::ScanChoice>(3)), std::nullopt) << "was BF16";
  EXPECT_EQ(ScanChoiceFromProto(static_cast<pb::ScanChoice>(99)), std::nullopt);
  EXPECT_EQ(RowPlacementFromProto(static_cast<pb::RowHome>(99)), std::nullopt);
}

// Older clients do not send these fields.
TEST(EnumConvertTest, AnAbsentScanIsAutoAndRowsLieOnTheDevice) {
  EXPECT_EQ(ScanChoiceFromProto(pb::SCAN_CHOICE_UNSPECIFIED), ScanChoice::kAuto);
  EXPECT_EQ(RowPlacementFromProto(pb::ROW_HOME_UNSPECIFIED), RowPlacement::kDevice);
}

class UploadSessionTest : public ::testing::Test {
 protected:
  UploadSessionTest() { EXPECT_OK(catalog_.Create("c", {.dim = 1})); }

  static pb::UploadRequest Begin() {
    return FromText("begin { collection: 'c' rows_max: 4 payload_bytes_max: 0 }");
  }
  static pb::UploadRequest Block(int id) {
    return FromText(absl::StrCat("block { ids { numbers: ", id,
                                 " } vectors { dtype: DATA_TYPE_FLOAT32 data: '\\0\\0\\0\\0' } }"));
  }
  static pb::UploadRequest Commit() { return FromText("commit {}"); }
  int64_t rows_count() { return (*catalog_.Find("c"))->collection->Stats().rows_count; }

  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  std::unique_ptr<Engine> engine_ = testing::MakeScriptedEngine(script_);
  Catalog catalog_{{.engine = engine_.get(), .store = nullptr}, 4};
  const std::function<absl::Status()> alive_ = [] { return absl::OkStatus(); };
};

TEST_F(UploadSessionTest, ADeadCallerCommitsNothing) {
  {
    UploadSession session(&catalog_, &kLimits, /*caller=*/"");
    ASSERT_OK(session.Handle(Begin(), alive_));
    ASSERT_OK(session.Handle(Block(1), alive_));
    EXPECT_THAT(session.Handle(Commit(), [] { return absl::CancelledError("gone"); }),
                StatusIs(kCancelled));
    EXPECT_FALSE(session.committed());
  }
  EXPECT_EQ(rows_count(), 0);
  EXPECT_EQ(script_->uploads_open, 0);
  EXPECT_EQ(script_->device->bytes_used(), 0);
}

TEST_F(UploadSessionTest, AfterCommitThereIsNothingToSay) {
  UploadSession session(&catalog_, &kLimits, /*caller=*/"");
  ASSERT_OK(session.Handle(Begin(), alive_));
  ASSERT_OK(session.Handle(Block(1), alive_));
  ASSERT_OK_AND_ASSIGN(const auto committed, session.Handle(Commit(), alive_));
  EXPECT_EQ(committed.committed().rows_count(), 1u);
  EXPECT_TRUE(session.committed());
  EXPECT_THAT(session.Handle(Block(2), alive_), FailsWith(kInvalidArgument, "after commit"));
  EXPECT_THAT(session.Handle(Begin(), alive_), FailsWith(kInvalidArgument, "after commit"));
}

TEST_F(UploadSessionTest, AnEmptyUploadCommitsNothingAndKeepsTheEpoch) {
  UploadSession session(&catalog_, &kLimits, /*caller=*/"");
  ASSERT_OK(session.Handle(Begin(), alive_));
  ASSERT_OK_AND_ASSIGN(const auto committed, session.Handle(Commit(), alive_));
  EXPECT_EQ(committed.committed().epoch(), 0u);
}

// Regression: a cursor did not cover the minimum score and continued in the order of another
// search.
TEST(CursorTest, TellsSearchesApartByAllThatTheirOrderDependsOn) {
  const std::vector<float> vector = {1, 2};
  const std::vector<float> other = {1, 3};
  const Query plain = {.vector = vector, .k = 3};
  Query query = plain;
  const auto fingerprint = [](const Query& of) {
    return SearchFingerprint(7, of, {.filter = "filter"});
  };
  const uint64_t known = fingerprint(plain);
  query.k = 9;
  query.skip = 4;
  EXPECT_EQ(fingerprint(query), known) << "pages of another size are of the same order";
  EXPECT_NE(SearchFingerprint(8, plain, {.filter = "filter"}), known);
  EXPECT_NE(SearchFingerprint(7, plain, {}), known);
  const auto grouped = SearchFingerprint(7, plain, {.filter = "filter", .group_by = "a"});
  const auto termed = SearchFingerprint(7, plain, {.filter = "filter", .terms = "a"});
  EXPECT_NE(grouped, known);
  EXPECT_NE(termed, known);
  EXPECT_NE(termed, grouped);
  query = plain;
  query.vector = other;
  EXPECT_NE(fingerprint(query), known);
  query = plain;
  query.score_threshold = 0.0f;
  const uint64_t with_minimum = fingerprint(query);
  EXPECT_NE(with_minimum, known);
  query.score_threshold = 0.5f;
  EXPECT_NE(fingerprint(query), with_minimum);
  query = {.row_id = Id(uint64_t{1})};
  const uint64_t of_row = fingerprint(query);
  query.row_id = Id(uint64_t{2});
  EXPECT_NE(fingerprint(query), of_row);
}

TEST(CursorTest, ComesBackAsItWasOrIsRefused) {
  const std::string bytes = EncodeCursor({.epoch = 3, .position = 40, .search_fingerprint = 5});
  ASSERT_OK_AND_ASSIGN(const auto cursor, DecodeCursor(bytes));
  EXPECT_EQ(cursor.epoch, 3u);
  EXPECT_EQ(cursor.position, 40);
  EXPECT_EQ(cursor.search_fingerprint, 5u);
  const auto refused = FailsWith(kInvalidArgument, "cursor: ");
  EXPECT_THAT(DecodeCursor(bytes.substr(1)), refused);
  EXPECT_THAT(DecodeCursor(bytes + "x"), refused);
  EXPECT_THAT(DecodeCursor("\2" + bytes.substr(1)), refused);
  EXPECT_THAT(DecodeCursor(EncodeCursor({.epoch = 3, .position = -1, .search_fingerprint = 5})),
              refused);
}

TEST(CursorTest, AScanCursorComesBackAsItWasOrIsRefused) {
  const auto refused = FailsWith(kInvalidArgument, "cursor: ");
  const std::string of_search = EncodeCursor({.epoch = 3, .position = 40, .search_fingerprint = 5});
  for (const Id& last :
       {Id(uint64_t{1} << 63), Id(std::string("a\0b", 3)), Id(std::string(kIdBytesMax, 'x'))}) {
    const bool text = std::holds_alternative<std::string>(last);
    const IdType type = text ? IdType::kString : IdType::kUint64;
    ScanCursor sent = {.epoch = 3, .position = 40, .scan_fingerprint = 5, .last = last};
    const std::string bytes = EncodeScanCursor(sent);
    ASSERT_OK_AND_ASSIGN(const auto cursor, DecodeScanCursor(bytes, type));
    EXPECT_EQ(cursor.epoch, 3u);
    EXPECT_EQ(cursor.position, 40);
    EXPECT_EQ(cursor.scan_fingerprint, 5u);
    EXPECT_EQ(cursor.last, last);
    EXPECT_THAT(DecodeCursor(bytes), FailsWith(kInvalidArgument, "cursor: of a scan"));
    EXPECT_THAT(DecodeScanCursor(bytes.substr(1), type), refused);
    EXPECT_THAT(DecodeScanCursor(bytes.substr(0, 25), type), refused);
    EXPECT_THAT(DecodeScanCursor("", type), refused);
    EXPECT_THAT(DecodeScanCursor(of_search, type),
                FailsWith(kInvalidArgument, "cursor: of a search"));
    if (text) {
      EXPECT_THAT(DecodeScanCursor(bytes + std::string(kIdBytesMax, 'x'), type), refused);
    } else {
      EXPECT_THAT(DecodeScanCursor(bytes + "x", type), refused);
    }
    sent.position = -1;
    EXPECT_THAT(DecodeScanCursor(EncodeScanCursor(sent), type), refused);
  }
  EXPECT_NE(ScanFingerprint(1, ""), ScanFingerprint(2, ""));
  EXPECT_NE(ScanFingerprint(1, ""), ScanFingerprint(1, "filter"));
}

}  // namespace
}  // namespace nearfield::server

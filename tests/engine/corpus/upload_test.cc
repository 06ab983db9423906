// Tests uploads: the refusals and their messages, and that an upload that does not commit leaves no
// bytes allocated.

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

class CorpusUploadTest : public ::testing::Test {
 protected:
  std::shared_ptr<Collection> Make(const CollectionSpec& spec = kPlainSpec) {
    return *fake_.engine->CreateCollection(spec);
  }
  void ExpectNoMemoryHeld() {
    const Capacity capacity = fake_.engine->GetCapacity();
    EXPECT_EQ(capacity.device_bytes_used, 0);
    EXPECT_EQ(capacity.host_bytes_used, 0);
  }

  FakeEngine fake_ = MakeFakeEngine();
};

TEST_F(CorpusUploadTest, ReservationsOutOfRangeAreNamed) {
  const auto collection = Make();
  EXPECT_THAT(collection->BeginUpload({.rows_max = 0}),
              StatusIs(kInvalidArgument, HasSubstr("rows_max = 0")));
  EXPECT_THAT(collection->BeginUpload({.rows_max = kRowsMax + 1}),
              StatusIs(kInvalidArgument, HasSubstr("4294967294")));
  EXPECT_THAT(collection->BeginUpload({.rows_max = 1, .payload_bytes_max = -1}),
              StatusIs(kInvalidArgument, HasSubstr("payload_bytes_max = -1")));
  EXPECT_THAT(collection->BeginUpload(
                  {.rows_max = kRowsMax, .payload_bytes_max = std::numeric_limits<int64_t>::max()}),
              StatusIs(kInvalidArgument, HasSubstr("payload_bytes_max")));
  ExpectNoMemoryHeld();
}

TEST_F(CorpusUploadTest, WhatCannotFitIsRefusedAtBegin) {
  const auto collection = Make();
  // Host memory: ids, ranks and payloads, of 256 MiB.
  EXPECT_THAT(
      collection->BeginUpload({.rows_max = 1, .payload_bytes_max = int64_t{1} << 30}),
      StatusIs(kResourceExhausted, AllOf(HasSubstr("host memory"), HasSubstr("268435456"))));
  // Device memory: 28 bytes for each row, of 64 MiB.
  EXPECT_THAT(collection->BeginUpload({.rows_max = 4'000'000}),
              StatusIs(kResourceExhausted, HasSubstr("112000000 bytes of device")));
  ExpectNoMemoryHeld();
  ASSERT_OK_AND_ASSIGN(const auto first, collection->BeginUpload({.rows_max = 2'000'000}));
  EXPECT_THAT(collection->BeginUpload({.rows_max = 2'000'000}), StatusIs(kResourceExhausted));
}

TEST_F(CorpusUploadTest, AnUploadBrokenOffLeavesNothing) {
  const auto collection = Make();
  {
    ASSERT_OK_AND_ASSIGN(auto upload,
                         collection->BeginUpload({.rows_max = 1000, .payload_bytes_max = 1000}));
    const Corpus rows = PlainRows({1, 2}, {0.5f, 0.25f});
    ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
    EXPECT_GT(fake_.engine->GetCapacity().device_bytes_used, 0);
    EXPECT_GT(fake_.engine->GetCapacity().host_bytes_used, 0);
  }
  ExpectNoMemoryHeld();
  EXPECT_EQ(collection->Stats().epoch, 0u);
}

TEST_F(CorpusUploadTest, TheUnusedPartIsGivenBackAtCommit) {
  const auto collection = Make();
  auto upload = *collection->BeginUpload({.rows_max = 100'000, .payload_bytes_max = 1 << 20});
  const Corpus rows = PlainRows({7, 3}, {0.5f, 0.25f});
  ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
  ASSERT_OK(upload->Commit());
  upload.reset();
  const CollectionStats stats = collection->Stats();
  EXPECT_EQ(stats.device_bytes, 2 * 28);
  EXPECT_EQ(stats.host_bytes, 2 * (8 + 4) + 8 + 8);  // ids, ranks, the filter; no payloads
  EXPECT_EQ(fake_.engine->GetCapacity().device_bytes_used, stats.device_bytes);
  EXPECT_EQ(fake_.engine->GetCapacity().host_bytes_used, stats.host_bytes);
}

TEST_F(CorpusUploadTest, AnEmptyUploadCommitsNothing) {
  const auto collection = Make();
  ASSERT_OK(UploadAll(*collection, PlainRows({1}, {1})));
  auto upload = *collection->BeginUpload({.rows_max = 10});
  const IdColumn none;
  ASSERT_OK(upload->Append({.ids = &none}));
  ASSERT_OK_AND_ASSIGN(const auto result, upload->Commit());
  EXPECT_EQ(result.epoch, 1u);
  EXPECT_EQ(result.rows_count, 0);
  EXPECT_EQ(collection->Stats().generations_count, 1);
}

// One wrong block, sent after one good row.
struct BadBlock {
  std::string name;
  CollectionSpec spec = kPlainSpec;
  IdColumn ids = Ids({2});
  std::vector<float> rows = {1, 2};
  std::vector<std::string> payloads;
  absl::StatusCode code = kInvalidArgument;
  std::string message;
};

std::vector<BadBlock> BadBlocks() {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  IdColumn strings(IdType::kString);
  strings.AppendString("a");
  std::vector<BadBlock> bad;
  bad.push_back(
      {.name = "id type", .ids = strings, .message = "ids of this collection are uint64"});
  bad.push_back({.name = "too few bytes", .rows = {1}, .message = "4 bytes for 1 rows of 2 dim"});
  bad.push_back({.name = "too many bytes", .rows = {1, 2, 3}, .message = "8 bytes are needed"});
  bad.push_back({.name = "nan",
                 .ids = Ids({5, 6}),
                 .rows = {1, 2, 3, nan},
                 .message = "row 2 (id 6) is not finite in dimension 1"});
  bad.push_back(
      {.name = "inf", .rows = {-inf, 0}, .message = "row 1 (id 2) is not finite in dimension 0"});
  bad.push_back({.name = "rows",
                 .ids = Ids({2, 3, 4}),
                 .rows = {1, 2, 3, 4, 5, 6},
                 .code = kResourceExhausted,
                 .message = "rows_max = 3 rows were reserved; 1 have been sent"});
  bad.push_back(
      {.name = "payload count", .payloads = {"a", "b"}, .message = "2 values for 1 rows"});
  bad.push_back({.name = "payload bytes",
                 .payloads = {"more than ten bytes"},
                 .code = kResourceExhausted,
                 .message = "payload_bytes_max = 10 bytes were reserved"});
  return bad;
}

TEST_F(CorpusUploadTest, OrdinalsTakenBeforeTheCommitAreThoseThatShow) {
  const auto collection = Make();
  const Corpus corpus = PlainRows({5, 3}, {1, 2});
  const UploadBlock block = {.ids = &corpus.ids, .rows = corpus.rows};
  const auto given_up = *collection->BeginUpload({.rows_max = 2});
  EXPECT_THAT(given_up->TakeOrdinals(), StatusIs(kFailedPrecondition));
  ASSERT_OK(given_up->Append(block));
  EXPECT_EQ(*given_up->TakeOrdinals(), 0u);
  const auto upload = *collection->BeginUpload({.rows_max = 4});
  ASSERT_OK(upload->Append(block));
  EXPECT_EQ(*upload->TakeOrdinals(), 2u);
  EXPECT_EQ(*upload->TakeOrdinals(), 2u);
  EXPECT_THAT(upload->Append(block), StatusIs(kFailedPrecondition, HasSubstr("only be committed")));
  uint32_t first_ordinal = 0;
  ASSERT_OK(upload->Commit([&](const PendingChange& change) {
    first_ordinal = change.first_ordinal;
    return absl::OkStatus();
  }));
  EXPECT_EQ(first_ordinal, 2u);
  EXPECT_EQ(collection->LiveRows(nullptr)->chosen, (std::vector<uint64_t>{0b1100}));
}

// Failed inserts kept their ordinals forever. After enough of them no upload could take any.
TEST_F(CorpusUploadTest, AFailedCommitGivesItsOrdinalsBack) {
  fake_ = MakeFakeEngine({.engine = {.host_memory_bytes = 1 << 20, .ordinals_max = 5}});
  const auto collection = Make();
  const Corpus corpus = PlainRows({5, 3}, {1, 2});
  const UploadBlock block = {.ids = &corpus.ids, .rows = corpus.rows};
  for (int i = 0; i < 10; ++i) {
    const auto upload = *collection->BeginUpload({.rows_max = 2});
    ASSERT_OK(upload->Append(block));
    const auto committed = upload->Commit([](const PendingChange& change) {
      EXPECT_EQ(change.first_ordinal, 0u);
      return absl::AbortedError("not now");
    });
    ASSERT_THAT(committed, StatusIs(kAborted));
  }
  ASSERT_OK(UploadAll(*collection, corpus));
  EXPECT_EQ(collection->LiveRows(nullptr)->chosen, (std::vector<uint64_t>{0b11}));
  EXPECT_THAT(UploadAll(*collection, corpus), StatusIs(kAlreadyExists));

  // The caller must release ordinals that it requested.
  const auto asked = *collection->BeginUpload({.rows_max = 2});
  ASSERT_OK(asked->Append(block));
  EXPECT_EQ(*asked->TakeOrdinals(), 2u);
  EXPECT_THAT(asked->Commit(), StatusIs(kAlreadyExists));
  const Corpus more = PlainRows({6, 7}, {1, 2});
  EXPECT_THAT(UploadAll(*collection, more),
              StatusIs(kResourceExhausted, HasSubstr("1 of the collection's 5")));
  collection->ReleaseOrdinals(2, 2);
  ASSERT_OK(UploadAll(*collection, more));
  EXPECT_EQ(collection->LiveRows(nullptr)->chosen, (std::vector<uint64_t>{0b1111}));
}

TEST_F(CorpusUploadTest, EachWrongBlockIsNamedAndEndsTheUpload) {
  for (const BadBlock& bad : BadBlocks()) {
    SCOPED_TRACE(bad.name);
    const auto collection = Make(bad.spec);
    auto upload = *collection->BeginUpload({.rows_max = 3, .payload_bytes_max = 10});
    const Corpus good = PlainRows({1}, {1});
    ASSERT_OK(upload->Append({.ids = &good.ids, .rows = good.rows}));
    BytesColumn payloads;
    for (const std::string& payload : bad.payloads) payloads.Append(payload);
    UploadBlock block;
    block.ids = &bad.ids;
    block.rows = {reinterpret_cast<const uint8_t*>(bad.rows.data()),
                  bad.rows.size() * sizeof(float)};
    block.payloads = bad.payloads.empty() ? nullptr : &payloads;
    EXPECT_THAT(upload->Append(block), StatusIs(bad.code, HasSubstr(bad.message)));
    EXPECT_THAT(upload->Append({.ids = &good.ids, .rows = good.rows}),
                StatusIs(kFailedPrecondition));
    EXPECT_THAT(upload->Commit(), StatusIs(kFailedPrecondition));
    upload.reset();
    ExpectNoMemoryHeld();
  }
}

TEST_F(CorpusUploadTest, StringIdsHaveALength) {
  CollectionSpec spec = kPlainSpec;
  spec.id_type = IdType::kString;
  const std::vector<float> row = {1, 2};
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{512}, size_t{513}}) {
    const auto collection = Make(spec);
    auto upload = *collection->BeginUpload({.rows_max = 1});
    IdColumn ids(IdType::kString);
    ids.AppendString(std::string(bytes, 'x'));
    const absl::Status status = upload->Append(
        {.ids = &ids,
         .rows = {reinterpret_cast<const uint8_t*>(row.data()), row.size() * sizeof(float)}});
    if (bytes >= 1 && bytes <= size_t{kIdBytesMax}) {
      EXPECT_OK(status);
    } else {
      EXPECT_THAT(status, StatusIs(kInvalidArgument, HasSubstr("1 to 512")));
    }
  }
}

TEST_F(CorpusUploadTest, ABlockWithoutIdsIsRefused) {
  const auto collection = Make();
  auto upload = *collection->BeginUpload({.rows_max = 1});
  EXPECT_THAT(upload->Append({}), StatusIs(kInvalidArgument, HasSubstr("ids: absent")));
}

// A stored row of zeros came back as a hit with the score -inf, which JSON has no number for.
TEST_F(CorpusUploadTest, ARowOfZerosIsRefusedWhereItHasNoCosine) {
  const std::array<float, 6> values = {1, 1, 0, -0.0f, 1, 1};
  const absl::Span<const uint8_t> rows(reinterpret_cast<const uint8_t*>(values.data()),
                                       sizeof(values));
  const IdColumn ids = Ids({7, 8, 9});
  for (const Metric metric : {Metric::kCosine, Metric::kDot, Metric::kL2}) {
    for (const bool refused : {true, false}) {
      const auto collection = Make({.dim = 2, .metric = metric});
      auto upload = *collection->BeginUpload({.rows_max = 6, .zero_rows_refused = refused});
      const Corpus good = PlainRows({1, 2}, {1, 2});
      ASSERT_OK(upload->Append({.ids = &good.ids, .rows = good.rows}));
      const absl::Status status = upload->Append({.ids = &ids, .rows = rows});
      if (refused && metric == Metric::kCosine) {
        EXPECT_THAT(status, StatusIs(kInvalidArgument,
                                     AllOf(HasSubstr("row 3 (id 8)"), HasSubstr("no cosine"))));
      } else {
        EXPECT_OK(status);
        EXPECT_OK(upload->Commit());
      }
    }
  }
}

TEST_F(CorpusUploadTest, AFaultOfTheDeviceLeavesNothing) {
  const Corpus rows = PlainRows({1, 2}, {1, 2});
  for (const FakeCall call : {FakeCall::kReserve, FakeCall::kAppend, FakeCall::kSeal}) {
    const auto collection = Make();
    fake_.device->FailAt(call, 1, absl::ResourceExhaustedError("scripted"));
    EXPECT_THAT(UploadAll(*collection, rows), StatusIs(kResourceExhausted));
    EXPECT_EQ(collection->Stats().epoch, 0u);
    ExpectNoMemoryHeld();
    EXPECT_OK(UploadAll(*collection, rows));  // the next upload is not affected
  }
}

TEST_F(CorpusUploadTest, AnUploadOutlivesTheHandleOfItsCollection) {
  auto collection = Make();
  auto upload = *collection->BeginUpload({.rows_max = 2});
  collection.reset();
  const Corpus rows = PlainRows({1, 2}, {1, 2});
  ASSERT_OK(upload->Append({.ids = &rows.ids, .rows = rows.rows}));
  EXPECT_OK(upload->Commit());
  EXPECT_THAT(upload->Commit(), StatusIs(kFailedPrecondition));
  upload.reset();
  ExpectNoMemoryHeld();
}

}  // namespace
}  // namespace nearfield::testing

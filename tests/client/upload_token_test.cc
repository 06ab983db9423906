// Tests of upload modes, attributes, and resumed uploads; against a server in this process.

#include <algorithm>

#include "client/cpp/retry.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/ingest.pb.h"
#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kRows = 100;

class UploadTokenTest : public ::testing::Test {
 protected:
  UploadTokenTest() : client_(MakeTestClient()) {
    EXPECT_OK(client_.CreateCollection({.name = "c", .dim = 1, .attributes = Attributes()}));
  }

  Client MakeTestClient() {
    server_.KeepData();
    return MakeClient(
        {.address = server_.address(), .deadline = milliseconds(20000), .retry = {.tries_max = 3}},
        &clock_);
  }

  static std::vector<AttributeSpec> Attributes() {
    return {{"year", AttributeType::kInt64}, {"tags", AttributeType::kKeyword, true}};
  }

  UploadOptions Options(const std::string& token) {
    return {.collection = "c",
            .rows_max = kRows,
            .token = token,
            .block_bytes_max = 300,
            .on_progress = [this](const UploadProgress& progress) { last_ = progress; }};
  }

  // Writes rows 0 .. kRows - 1, `step` per call; value and attribute of each row are its number.
  static absl::Status WriteAll(Upload& upload, uint64_t step) {
    for (uint64_t begin = 0; begin < kRows; begin += step) {
      const std::vector<uint64_t> numbers = Numbers(begin, std::min(begin + step, kRows));
      AttributeColumnBuilder years({"year", AttributeType::kInt64});
      std::string vectors;
      for (const uint64_t number : numbers) {
        const float value = static_cast<float>(number);
        EXPECT_TRUE(Narrow(DataType::kFloat32, std::span<const float>(&value, 1), &vectors));
        if (number % 3 == 0) {
          years.AddMissing();
        } else {
          EXPECT_OK(years.Add(static_cast<int64_t>(number)));
        }
      }
      const IdColumn ids = numbers;
      const std::vector<AttributeColumn> attributes = {years.Take()};
      const absl::Status status =
          upload.Write({.ids = &ids, .vectors = vectors, .attributes = attributes});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Checks that the collection has every row once, with its own values.
  void ExpectEveryRowOnce() {
    const std::vector<uint64_t> ids = Numbers(0, kRows);
    ASSERT_OK_AND_ASSIGN(const auto fetched, client_.Fetch("c", ids));
    ASSERT_EQ(fetched.ids, IdColumn(ids));
    const std::vector<float> values = Widen(fetched.vectors.dtype, fetched.vectors.bytes);
    ASSERT_EQ(values, std::vector<float>(ids.begin(), ids.end()));
    for (const uint64_t id : ids) {
      const auto own_year = Filter::And({Filter::HasId(std::vector<uint64_t>{id}),
                                         Filter::Equal("year", static_cast<int64_t>(id))});
      ASSERT_OK_AND_ASSIGN(const auto count, client_.Count("c", {.filter = own_year}));
      ASSERT_EQ(count.rows_count, id % 3 == 0 ? 0u : 1u) << id;
    }
    ASSERT_OK_AND_ASSIGN(const auto with_year,
                         client_.Count("c", {.filter = Filter::Exists("year")}));
    ASSERT_EQ(with_year.rows_count, kRows - (kRows + 2) / 3);
    EXPECT_EQ(client_.Count("c")->rows_count, kRows);
  }

  TestServer server_;
  FakeClock clock_;
  Client client_;
  UploadProgress last_;
};

TEST_F(UploadTokenTest, ModesAndTokensAreSent) {
  for (const UploadMode mode : {UploadMode::kInsert, UploadMode::kUpsert, UploadMode::kReplace}) {
    UploadOptions options = Options("");
    options.mode = mode;
    ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload(options));
    EXPECT_EQ(upload.rows_resumed(), 0u);
    EXPECT_FALSE(upload.was_committed());
    ASSERT_OK(WriteAll(upload, kRows));
    ASSERT_OK_AND_ASSIGN(const auto result, upload.Commit());
    EXPECT_EQ(result.rows_replaced, mode == UploadMode::kInsert ? 0 : kRows);
    const v1::UploadBegin begin = LastBegin(server_);
    EXPECT_EQ(static_cast<int>(begin.mode()), static_cast<int>(mode));
    EXPECT_FALSE(begin.has_upload_token());
    EXPECT_FALSE(BlocksOf(server_).back().has_block_number());
  }
}

TEST_F(UploadTokenTest, AnUploadGoesOnWhereAnEarlierStreamEnded) {
  EndUploadsAfter(server_, {40});
  ASSERT_OK_AND_ASSIGN(auto first, client_.BeginUpload(Options("t")));
  absl::Status broken = WriteAll(first, 7);
  if (broken.ok()) broken = first.Commit().status();
  ASSERT_THAT(broken, StatusIs(kUnavailable));
  ASSERT_OK_AND_ASSIGN(const auto open, client_.GetUpload("c", "t"));
  EXPECT_FALSE(open.committed);
  EXPECT_GE(open.rows_count, 40u);
  EXPECT_EQ(open.next_block, BlocksOf(server_).size());

  ASSERT_OK_AND_ASSIGN(auto second, client_.BeginUpload(Options("t")));
  EXPECT_EQ(second.rows_resumed(), open.rows_count);
  ASSERT_OK(WriteAll(second, 11));  // in other blocks
  ASSERT_OK_AND_ASSIGN(const auto result, second.Commit());
  EXPECT_EQ(result.rows_count, kRows);
  EXPECT_EQ(last_.rows_skipped, open.rows_count);
  EXPECT_EQ(last_.rows_skipped + last_.rows_sent, kRows);
  ExpectEveryRowOnce();

  // A third upload sends nothing and gets the same answer.
  const size_t blocks_before = BlocksOf(server_).size();
  ASSERT_OK_AND_ASSIGN(auto third, client_.BeginUpload(Options("t")));
  EXPECT_TRUE(third.was_committed());
  EXPECT_EQ(third.rows_resumed(), kRows);
  ASSERT_OK(WriteAll(third, 50));
  EXPECT_EQ(third.Commit()->epoch, result.epoch);
  EXPECT_EQ(BlocksOf(server_).size(), blocks_before);
  EXPECT_EQ(client_.GetUpload("c", "t")->epoch, result.epoch);
  EXPECT_TRUE(client_.GetUpload("c", "t")->committed);
  EXPECT_THAT(client_.GetUpload("c", "other"), StatusIs(kNotFound));
  EXPECT_THAT(client_.DropUpload("c", "t"), StatusIs(kFailedPrecondition));
}

TEST_F(UploadTokenTest, AnOpenUploadCanBeGivenUp) {
  EndUploadsAfter(server_, {40});
  ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload(Options("t")));
  absl::Status broken = WriteAll(upload, 7);
  if (broken.ok()) broken = upload.Commit().status();
  ASSERT_THAT(broken, StatusIs(kUnavailable));
  const uint64_t rows_count = client_.GetUpload("c", "t")->rows_count;
  EXPECT_THAT(client_.DropUpload("c", "t"), IsOkAndHolds(rows_count));
  EXPECT_THAT(client_.GetUpload("c", "t"), StatusIs(kNotFound));
  EXPECT_THAT(client_.DropUpload("c", "t"), StatusIs(kNotFound));
}

TEST_F(UploadTokenTest, AWholeUploadIsRepeatedAsLongAsItComesOn) {
  // There are more breaks than tries, but each try gets further than the one before.
  EndUploadsAfter(server_, {10, 10, 10, 10, 10, 10});
  std::vector<uint64_t> resumed;
  ASSERT_OK_AND_ASSIGN(const auto result,
                       client_.UploadWithToken(Options("t"), [&](Upload& upload) {
                         resumed.push_back(upload.rows_resumed());
                         return WriteAll(upload, 13);
                       }));
  EXPECT_EQ(result.rows_count, kRows);
  EXPECT_THAT(resumed, SizeIs(7));
  EXPECT_TRUE(std::is_sorted(resumed.begin(), resumed.end()));
  ExpectEveryRowOnce();
}

TEST_F(UploadTokenTest, ARepeatedUploadEndsWhereItComesNoFurther) {
  EndUploadsAfter(server_, {10});
  int tries = 0;
  const auto stuck = client_.UploadWithToken(Options("t"), [&](Upload&) -> absl::Status {
    ++tries;
    return absl::UnavailableError("stuck");
  });
  EXPECT_THAT(stuck, StatusIs(kUnavailable, "stuck"));
  EXPECT_EQ(tries, 3);
  // An error that a retry cannot fix is returned immediately.
  tries = 0;
  const auto refused = client_.UploadWithToken(Options("u"), [&](Upload&) -> absl::Status {
    ++tries;
    return absl::InvalidArgumentError("a bad file");
  });
  EXPECT_THAT(refused, StatusIs(kInvalidArgument, "a bad file"));
  EXPECT_EQ(tries, 1);
  EXPECT_THAT(client_.UploadWithToken(Options(""), [](Upload&) { return absl::OkStatus(); }),
              StatusIs(kInvalidArgument, HasSubstr("token: empty")));
}

// A server may still consider the previous stream alive, and refuse its token to a stream that
// follows immediately. Without a previous stream of this client, the refusal is final.
TEST_F(UploadTokenTest, ATokenThatIsStillInUseIsAskedForAgain) {
  const Refusal in_use = {absl::FailedPreconditionError("in use by another stream"), std::nullopt};
  server_.Refuse("Upload", {in_use});
  EXPECT_THAT(client_.UploadWithToken(Options("t"), [](Upload& u) { return WriteAll(u, kRows); }),
              StatusIs(kFailedPrecondition));
  EXPECT_EQ(server_.calls("Upload"), 1);
  EndUploadsAfter(server_, {10});
  bool broke = false;
  ASSERT_OK_AND_ASSIGN(const auto result,
                       client_.UploadWithToken(Options("t"), [&](Upload& upload) {
                         const absl::Status status = WriteAll(upload, kRows);
                         if (!std::exchange(broke, true)) server_.Refuse("Upload", {in_use});
                         return status;
                       }));
  EXPECT_EQ(server_.calls("Upload"), 4);
  ExpectEveryRowOnce();
}

// Regression: before a server accepts a large resumed upload, it reads all that it has of it. That
// took longer than the client's deadline, so no try ever got further.
TEST_F(UploadTokenTest, AnUploadThatGoesOnIsAwaitedBeyondTheDeadlineOfACall) {
  Client hasty = MakeClient({.address = server_.address(), .deadline = milliseconds(20)}, &clock_);
  ASSERT_OK(hasty.GetLimits({.deadline = milliseconds(20000)}));  // cached
  server_.OnReply<v1::UploadResponse>("Upload", [this](const auto* response) {
    if (response->has_accepted()) server_.AwaitEnd(milliseconds(300));
  });
  ASSERT_OK_AND_ASSIGN(auto upload, hasty.BeginUpload(Options("t")));
  upload.Cancel();
  ASSERT_OK(
      hasty.UploadWithToken(Options("u"), [](Upload& other) { return WriteAll(other, kRows); }));
  // Without a token the server has nothing to read, and a deadline set by the caller applies.
  EXPECT_THAT(hasty.BeginUpload(Options("")), StatusIs(kDeadlineExceeded));
  UploadOptions bounded = Options("v");
  bounded.deadline = milliseconds(20);
  EXPECT_THAT(hasty.BeginUpload(bounded), StatusIs(kDeadlineExceeded));
  bounded.token = "w";  // the server may still wait for the stream of the other
  EXPECT_THAT(hasty.UploadWithToken(bounded, [](Upload&) { return absl::OkStatus(); }),
              StatusIs(kDeadlineExceeded));
}

TEST_F(UploadTokenTest, ACommitInDoubtIsCleared) {
  EndUploadsAtCommit(server_, {absl::UnavailableError("broken")});
  auto lost = client_.BeginUpload(Options("t"));
  ASSERT_OK(WriteAll(*lost, kRows));
  EXPECT_THAT(lost->Commit(), StatusIs(kUnavailable, HasSubstr("repeat it with the same token")));
  server_.OnReply<v1::UploadResponse>("Upload", [](const auto*) {});
  ASSERT_OK_AND_ASSIGN(const auto result, client_.UploadWithToken(Options("t"), [](Upload& upload) {
    return WriteAll(upload, kRows);
  }));
  EXPECT_EQ(result.rows_count, kRows);
  ExpectEveryRowOnce();
}

TEST_F(UploadTokenTest, TextThatIsNotUtf8IsRefusedWithoutHarm) {
  ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload(Options("")));
  const IdColumn ids = std::vector<uint64_t>{1};
  const std::string vectors(4, '\0');
  std::vector<AttributeColumn> bad = {
      {.attribute = "a", .values = std::vector<std::string>{"\xff"}}};
  EXPECT_THAT(upload.Write({.ids = &ids, .vectors = vectors, .attributes = bad}),
              StatusIs(kInvalidArgument, HasSubstr("attributes[0] (a): value 0")));
  bad[0] = {.attribute = "\xff", .values = std::vector<int64_t>{1}};
  EXPECT_THAT(upload.Write({.ids = &ids, .vectors = vectors, .attributes = bad}),
              StatusIs(kInvalidArgument, HasSubstr("attributes[0].attribute")));
  EXPECT_OK(upload.Write({.ids = &ids, .vectors = vectors}));
  EXPECT_OK(upload.Commit());
}

TEST_F(UploadTokenTest, ListsAreCutWithTheirRows) {
  UploadOptions options = Options("");
  options.block_bytes_max = 250;
  ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload(options));
  const std::vector<uint64_t> numbers = Numbers(0, 20);
  const IdColumn ids = numbers;
  AttributeColumnBuilder tags({"tags", AttributeType::kKeyword, true});
  for (const uint64_t number : numbers) {
    ASSERT_OK(tags.AddList(std::vector<AttributeValue>(number % 4, std::to_string(number))));
  }
  const std::vector<AttributeColumn> attributes = {tags.Take()};
  ASSERT_OK(
      upload.Write({.ids = &ids, .vectors = std::string(20 * 4, '\0'), .attributes = attributes}));
  ASSERT_OK(upload.Commit());
  EXPECT_THAT(BlocksOf(server_), SizeIs(Gt(3u)));
  uint64_t number = 0;
  for (const v1::UploadBlock& block : BlocksOf(server_)) {
    const v1::AttributeColumn& column = block.attributes(0);
    ASSERT_EQ(column.list_sizes_size(), block.ids().numbers_size());
    EXPECT_FALSE(column.has_presence());
    int value = 0;
    for (const uint32_t size : column.list_sizes()) {
      ASSERT_EQ(size, number % 4);
      for (uint32_t i = 0; i < size; ++i) {
        ASSERT_EQ(column.values().keyword_values(value++), std::to_string(number));
      }
      ++number;
    }
    EXPECT_EQ(value, column.values().keyword_values_size());
  }
  EXPECT_EQ(number, 20u);
}

}  // namespace
}  // namespace nearfield::client

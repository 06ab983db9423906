// Tests of uploads against a server in this process.
#include "nearfield/client/upload.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "nearfield/client/client.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

// Rows with ids begin .. begin + count - 1; each of the dim fp32 values is the row's number.
struct Rows {
  Rows(uint64_t begin, size_t count, uint32_t dim) {
    std::vector<uint64_t> numbers = Numbers(begin, begin + count);
    std::vector<float> values;
    for (const uint64_t number : numbers)
      values.insert(values.end(), dim, static_cast<float>(number));
    Narrow(DataType::kFloat32, values, &vectors);
    ids = std::move(numbers);
  }
  RowBlock block() const { return {.ids = &ids, .vectors = vectors, .payloads = payloads}; }

  IdColumn ids;
  std::string vectors;
  std::vector<std::string> payloads;
};

class UploadTest : public ::testing::Test {
 protected:
  UploadTest() : client_(*Client::Connect({.address = server_.address()})) {
    EXPECT_OK(client_.CreateCollection({.name = "c", .dim = kDim}));
  }

  // Waits until the server has ended an upload without a commit.
  void AwaitAbandonedUpload() {
    const auto abandoned = [this] {
      const auto counters = client_.GetCounters();
      EXPECT_OK(counters);
      return std::any_of(counters->calls.begin(), counters->calls.end(), [](const auto& calls) {
        return calls.method == "Upload" && calls.status != "OK";
      });
    };
    while (!abandoned()) std::this_thread::yield();
  }

  static constexpr uint32_t kDim = 64;
  TestServer server_;
  Client client_;
};

TEST_F(UploadTest, BlocksStayBelowTheServersLimitAndEveryRowArrivesOnce) {
  constexpr size_t kCount = 1000;
  server_.OnReply<v1::GetLimitsResponse>(
      "GetLimits", [](auto* limits) { limits->set_upload_block_bytes_max(5000); });
  std::vector<UploadProgress> seen;
  ASSERT_OK_AND_ASSIGN(auto upload,
                       client_.BeginUpload({.collection = "c",
                                            .rows_max = kCount,
                                            .on_progress = [&](const UploadProgress& progress) {
                                              seen.push_back(progress);
                                            }}));
  ASSERT_OK(upload.Write(Rows(0, 1, kDim).block()));
  ASSERT_OK(upload.Write(Rows(1, kCount - 1, kDim).block()));
  ASSERT_OK_AND_ASSIGN(const auto result, upload.Commit());
  EXPECT_EQ(result.rows_count, kCount);
  EXPECT_EQ(result.epoch, 1u);
  EXPECT_EQ(result.request_id, server_.request_id("Upload"));
  std::vector<uint64_t> blocks;
  for (const auto& block : BlocksOf(server_)) blocks.push_back(block.ByteSizeLong());
  EXPECT_THAT(blocks, Each(Le(5000u)));
  EXPECT_THAT(blocks, SizeIs(Gt(50u)));
  EXPECT_EQ(client_.Count("c")->rows_count, kCount);
  for (const uint64_t id : std::vector<uint64_t>{0, 1, 500, 999}) {
    const auto row = client_.Fetch("c", std::vector<uint64_t>{id});
    EXPECT_EQ(Widen(row->vectors.dtype, row->vectors.bytes),
              std::vector<float>(kDim, static_cast<float>(id)));
  }
  ASSERT_THAT(seen, SizeIs(blocks.size() + 1));
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GE(seen[i].rows_sent, seen[i - 1].rows_sent);
    EXPECT_GE(seen[i].rows_received, seen[i - 1].rows_received);
    EXPECT_LE(seen[i].rows_received, seen[i].rows_sent);
  }
  EXPECT_EQ(seen.back().rows_received, kCount);
  EXPECT_EQ(seen.back().bytes_sent, std::accumulate(blocks.begin(), blocks.end(), uint64_t{0}));
}

// The server reads no block: the data that the client hands to gRPC must stay bounded, and not grow
// to the whole upload.
TEST_F(UploadTest, AServerThatDoesNotReadStopsTheWriter) {
  server_.OnReply<v1::UploadResponse>("Upload", [this](const auto* response) {
    if (response->has_progress()) server_.AwaitEnd();
  });
  constexpr size_t kBlocks = 256;
  uint64_t bytes_sent = 0;
  ASSERT_OK_AND_ASSIGN(auto upload,
                       client_.BeginUpload({.collection = "c",
                                            .rows_max = 1 << 16,
                                            .deadline = milliseconds(4000),
                                            .on_progress = [&](const UploadProgress& progress) {
                                              bytes_sent = progress.bytes_sent;
                                            }}));
  const Rows megabyte(0, 4096, kDim);
  absl::Status status;
  for (size_t i = 0; i < kBlocks && status.ok(); ++i) status = upload.Write(megabyte.block());
  EXPECT_THAT(status, StatusIs(kDeadlineExceeded));
  EXPECT_LT(bytes_sent, uint64_t{64} << 20);
}

TEST_F(UploadTest, ARefusalBeforeTheFirstRowIsTheServersWord) {
  server_.Refuse("Upload", {{absl::ResourceExhaustedError("needs 9 GB, 3 GB free"), std::nullopt}});
  EXPECT_THAT(client_.BeginUpload({.collection = "c", .rows_max = 5}),
              StatusIs(kResourceExhausted, "needs 9 GB, 3 GB free"));
  EXPECT_THAT(client_.BeginUpload({.collection = "none", .rows_max = 5}), StatusIs(kNotFound));
  EXPECT_THAT(client_.BeginUpload({.collection = "c"}),
              StatusIs(kInvalidArgument, HasSubstr("rows_max")));
}

TEST_F(UploadTest, ARefusalMidwayEndsTheUploadWithTheServersWord) {
  ASSERT_OK_AND_ASSIGN(
      auto upload,
      client_.BeginUpload({.collection = "c", .rows_max = 20000, .block_bytes_max = 4096}));
  Rows rows(0, 20000, kDim);
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(rows.vectors.data() + 101 * kDim * sizeof(float), &infinite, sizeof(infinite));
  absl::Status status = upload.Write(rows.block());
  if (status.ok()) status = upload.Commit().status();
  EXPECT_THAT(status, StatusIs(kInvalidArgument,
                               HasSubstr("row 101 (id 101) is not finite in dimension 0")));
  EXPECT_EQ(RequestIdOf(status), server_.request_id("Upload"));
  EXPECT_EQ(upload.Write(Rows(0, 1, kDim).block()), status);  // later calls return the same error
  EXPECT_EQ(upload.Commit().status(), status);
  EXPECT_EQ(client_.Count("c")->rows_count, 0u);
}

TEST_F(UploadTest, CancelledOrAbandonedUploadsLeaveNothing) {
  {
    ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload({.collection = "c", .rows_max = 10}));
    ASSERT_OK(upload.Write(Rows(0, 5, kDim).block()));
  }
  AwaitAbandonedUpload();
  ASSERT_OK_AND_ASSIGN(auto upload, client_.BeginUpload({.collection = "c", .rows_max = 10}));
  upload.Cancel();
  EXPECT_THAT(upload.Commit(), StatusIs(kCancelled));
  EXPECT_EQ(client_.Count("c")->rows_count, 0u);
}

TEST_F(UploadTest, AServerThatNeverAcceptsIsNotAwaitedForEver) {
  server_.OnReply<v1::UploadResponse>("Upload", [this](const auto*) { server_.AwaitEnd(); });
  Client hasty = *Client::Connect({.address = server_.address(), .deadline = milliseconds(100)});
  EXPECT_THAT(hasty.BeginUpload({.collection = "c", .rows_max = 1}), StatusIs(kDeadlineExceeded));
}

TEST_F(UploadTest, ACommitThatWasConfirmedStandsThoughTheStreamBreaks) {
  EndUploadsAtCommit(server_,
                     {absl::UnavailableError("broken"), std::nullopt, /*after_reply=*/true});
  auto upload = client_.BeginUpload({.collection = "c", .rows_max = 5});
  ASSERT_OK(upload->Write(Rows(0, 5, kDim).block()));
  ASSERT_OK_AND_ASSIGN(const auto result, upload->Commit());
  EXPECT_EQ(result.rows_count, 5u);
  EXPECT_THAT(upload->Commit(), StatusIs(kFailedPrecondition));
}

TEST_F(UploadTest, ACommitInDoubtSaysSo) {
  EndUploadsAtCommit(server_, {absl::OkStatus()});
  auto upload = client_.BeginUpload({.collection = "c", .rows_max = 5});
  ASSERT_OK(upload->Write(Rows(0, 5, kDim).block()));
  EXPECT_THAT(upload->Commit(), StatusIs(kInternal));
  EndUploadsAtCommit(server_, {absl::UnavailableError("broken")});
  auto broken = client_.BeginUpload({.collection = "c", .rows_max = 5});
  ASSERT_OK(broken->Write(Rows(5, 5, kDim).block()));
  EXPECT_THAT(broken->Commit(), StatusIs(kUnavailable, HasSubstr("count before repeating")));
}

// The rows before it were sent: a commit of only those would be half of the caller's upload.
TEST_F(UploadTest, ARowThatFitsNoBlockEndsTheUpload) {
  ASSERT_OK_AND_ASSIGN(
      auto upload,
      client_.BeginUpload(
          {.collection = "c", .rows_max = 3, .payload_bytes_max = 9000, .block_bytes_max = 1000}));
  Rows rows(0, 3, kDim);
  rows.payloads = {"", "", std::string(5000, 'p')};
  const absl::Status status = upload.Write(rows.block());
  EXPECT_THAT(status, StatusIs(kInvalidArgument, HasSubstr("id 2")));
  EXPECT_EQ(upload.Commit().status(), status);
  AwaitAbandonedUpload();
  EXPECT_EQ(client_.Count("c")->rows_count, 0u);
}

TEST_F(UploadTest, BlocksThatDisagreeAreRefusedAndTheUploadGoesOn) {
  auto upload = client_.BeginUpload({.collection = "c", .rows_max = 5, .payload_bytes_max = 5});
  Rows rows(0, 5, kDim);
  rows.payloads = {"x"};
  EXPECT_THAT(upload->Write(rows.block()), StatusIs(kInvalidArgument));
  rows.payloads = {"a", "b", "", "d", "e"};
  EXPECT_OK(upload->Write(rows.block()));
  ASSERT_OK(upload->Commit());
  EXPECT_EQ(client_.Fetch("c", std::vector<uint64_t>{3})->payloads[0], "d");
}

}  // namespace
}  // namespace nearfield::client

// Tests of Client::Scan against a server in this process: its options, its pages, and that it
// continues after a lost connection in the same epoch.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/retry.h"
#include "nearfield/client/client.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"
#include "tests/client/upload_script.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

class ScanPagesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kRows = 100;
  static constexpr size_t kPayloadBytes = 4000;  // about 15 rows in a page

  ScanPagesTest() : client_(MakeTestClient()) {
    EXPECT_OK(client_.CreateCollection({.name = "c", .dim = 1}));
    Upload(0, kRows);
  }

  static std::string Address(TestServer& server) {
    server.Set("response_bytes_max", "65536");
    server.Set("payload_bytes_max", "8192");
    return server.address();
  }
  Client MakeTestClient() {
    return MakeClient({.address = Address(server_),
                       .deadline = milliseconds(20000),
                       .retry = {.tries_max = 3},
                       .caller = "tests"},
                      &clock_);
  }

  void Upload(uint64_t begin, uint64_t end) {
    const std::vector<uint64_t> numbers = Numbers(begin, end);
    const std::vector<float> values(numbers.begin(), numbers.end());
    const std::vector<std::string> payloads(numbers.size(), std::string(kPayloadBytes, 'p'));
    const IdColumn ids = numbers;
    std::string vectors;
    EXPECT_TRUE(Narrow(DataType::kFloat32, values, &vectors));
    auto upload = client_.BeginUpload(
        {.collection = "c", .rows_max = end - begin, .payload_bytes_max = (end - begin) * 8000});
    EXPECT_OK(upload->Write({.ids = &ids, .vectors = vectors, .payloads = payloads}));
    EXPECT_OK(upload->Commit());
  }

  // Returns the ids of all pages, or the first error.
  absl::StatusOr<std::vector<uint64_t>> All(const ScanOptions& options = {}, int* pages = nullptr) {
    auto scan = client_.Scan("c", options);
    if (!scan.ok()) return scan.status();
    std::vector<uint64_t> found;
    for (;;) {
      auto page = scan->Next();
      if (!page.ok()) {
        EXPECT_EQ(scan->Next().status(), page.status());  // later calls return the same error
        return page.status();
      }
      if (!page->has_value()) break;
      if (pages != nullptr) ++*pages;
      const auto& ids = std::get<std::vector<uint64_t>>((*page)->ids);
      found.insert(found.end(), ids.begin(), ids.end());
      cursor_ = (*page)->next_cursor;
      EXPECT_EQ((*page)->rows_count, kRows);
    }
    EXPECT_FALSE(scan->Next()->has_value());  // later calls return the same
    return found;
  }

  // Used by hooks, which may run until the server ends.
  int replies_ = 0;
  uint64_t epoch_ = 2;
  TestServer server_;
  FakeClock clock_;
  Client client_;
  std::string cursor_;  // of the last page
};

TEST_F(ScanPagesTest, AllPagesTogetherAreTheRows) {
  int pages = 0;
  EXPECT_THAT(All({}, &pages), IsOkAndHolds(Numbers(0, kRows)));
  EXPECT_GT(pages, 5);
  EXPECT_EQ(server_.calls("Scan"), 1);
  EXPECT_EQ(server_.caller("Scan"), "tests");
  ASSERT_OK_AND_ASSIGN(auto scan, client_.Scan("c", {.rows_max = 1}));
  ASSERT_OK_AND_ASSIGN(const auto page, scan.Next());
  EXPECT_EQ(page->vectors.bytes, std::string(4, '\0'));
  EXPECT_THAT(page->payloads, ElementsAre(std::string(kPayloadBytes, 'p')));
  EXPECT_EQ(page->epoch, 1u);
  EXPECT_NE(page->incarnation, 0u);
}

TEST_F(ScanPagesTest, AScanAsksForWhatItsOptionsSay) {
  const auto info = client_.GetCollection("c");
  ASSERT_OK_AND_ASSIGN(auto scan,
                       client_.Scan("c", {.with_payload = false,
                                          .with_vectors = false,
                                          .filter = Filter::HasId(std::vector<uint64_t>{7, 9}),
                                          .min_epoch = 1,
                                          .incarnation = info->incarnation,
                                          .rows_max = 200}));
  ASSERT_OK_AND_ASSIGN(const auto page, scan.Next());
  EXPECT_EQ(page->ids, IdColumn(std::vector<uint64_t>{7, 9}));
  EXPECT_EQ(page->rows_count, 2u);
  const auto request = server_.last<v1::ScanRequest>("Scan");
  EXPECT_FALSE(request.with_payload() || request.with_vectors());
  EXPECT_EQ(request.filter_text(), "id in $1");
  EXPECT_EQ(request.min_epoch(), 1u);
  EXPECT_EQ(request.incarnation(), info->incarnation);
  EXPECT_EQ(request.rows_max(), 200u);
  EXPECT_FALSE(request.has_cursor());
}

TEST_F(ScanPagesTest, ACursorContinuesAfterItsPage) {
  EXPECT_THAT(All({.rows_max = 40}), IsOkAndHolds(Numbers(0, 40)));
  ASSERT_NE(cursor_, "");
  EXPECT_THAT(All({.cursor = cursor_}), IsOkAndHolds(Numbers(40, kRows)));
  EXPECT_EQ(cursor_, "");
}

TEST_F(ScanPagesTest, AScanGoesOnInItsEpochAfterALostConnection) {
  // Each stream breaks after two pages, more often than there are tries; each page resets them.
  server_.OnReply<v1::ScanResponse>("Scan", [this](const auto*) -> std::optional<Refusal> {
    if (++replies_ % 2 == 0) return Refusal{absl::UnavailableError("broken"), std::nullopt, true};
    return std::nullopt;
  });
  ASSERT_OK_AND_ASSIGN(auto scan, client_.Scan("c", {.at_epoch = 1, .rows_max = 95}));
  std::vector<uint64_t> found;
  for (;;) {
    ASSERT_OK_AND_ASSIGN(const auto page, scan.Next());
    if (!page) break;
    EXPECT_EQ(page->epoch, 1u);
    const auto& ids = std::get<std::vector<uint64_t>>(page->ids);
    found.insert(found.end(), ids.begin(), ids.end());
    Upload(1000 + found.size(), 1001 + found.size());  // later epochs
  }
  EXPECT_EQ(found, Numbers(0, 95));
  EXPECT_GE(server_.calls("Scan"), 3);
  const auto last = server_.last<v1::ScanRequest>("Scan");
  EXPECT_TRUE(last.has_cursor());
  EXPECT_FALSE(last.has_at_epoch());
  EXPECT_LT(last.rows_max(), 95u);
}

TEST_F(ScanPagesTest, AScanEndsWithTheServersWord) {
  EXPECT_THAT(client_.Scan("\xff"), StatusIs(kInvalidArgument));
  EXPECT_THAT(All({.rows_max = 0}), StatusIs(kInvalidArgument, HasSubstr("rows_max = 0")));
  server_.Refuse("Scan", {{absl::UnavailableError("1"), std::nullopt},
                          {absl::UnavailableError("2"), std::nullopt},
                          {absl::UnavailableError("3"), std::nullopt}});
  EXPECT_THAT(All(), StatusIs(kUnavailable, "3"));
  // A page of another epoch does not belong to this scan.
  server_.OnReply<v1::ScanResponse>("Scan", [this](auto* page) { page->set_epoch(epoch_++); });
  EXPECT_THAT(All(), StatusIs(kInternal, HasSubstr("epoch 3 after one of 2")));
}

TEST_F(ScanPagesTest, AScanThatIsNotWantedIsLeft) {
  ASSERT_OK_AND_ASSIGN(auto scan, client_.Scan("c"));
  ASSERT_OK(scan.Next());
  { const ScanPages left = std::move(scan); }
  EXPECT_OK(client_.Count("c"));
}

}  // namespace
}  // namespace nearfield::client

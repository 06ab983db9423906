// Tests of digests, verified searches and the audit as a client sees them.
#include <openssl/sha.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

namespace hv = ::grpc::health::v1;

constexpr char kVerify[] = "collection: 'c' query { vector { values: [1, 0] } } ";

class AuditServiceTest : public ServerFixture {
 protected:
  AuditServiceTest() { Set(settings_.audit_dir, dir_ / "audit"); }
  ~AuditServiceTest() override { Drain(); }

  static pb::SearchRequest Verified() {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    request.set_verify(true);
    return request;
  }
  // Makes the second score of every answer one unit in the last place too large.
  void FlipAScoreBit() {
    script_->CorruptAnswers([](Neighbors* neighbors) {
      neighbors->scores.Mutable()[1] = std::nextafterf(neighbors->scores[1], INFINITY);
    });
  }
  // Returns at the first NOT_SERVING.
  void AwaitNotServing() {
    grpc::ClientContext context;
    const auto watch = health_->Watch(&context, hv::HealthCheckRequest());
    hv::HealthCheckResponse response;
    while (watch->Read(&response) && response.status() != hv::HealthCheckResponse::NOT_SERVING) {
    }
    EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
    context.TryCancel();
  }
  int64_t RecordsCount() {
    int64_t count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "audit", none)) {
      count += entry.path().extension() == ".json" ? 1 : 0;
    }
    return count;
  }
  nlohmann::json FirstRecord() {
    std::ifstream file(std::filesystem::directory_iterator(dir_ / "audit")->path());
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }
  // Checks the behavior of a server that gave a wrong answer.
  void ExpectDistrusted() {
    pb::SearchResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(Call(&Retrieval::Search, SearchFor("c", {1, 0}), &response, &context),
                RefusedWith(kUnavailable, "found to be wrong"));
    EXPECT_TRUE(Trailer(context, "grpc-retry-pushback-ms").has_value());
    EXPECT_EQ(response.results_size(), 0);
    EXPECT_THAT(UploadRows("c", {9}), HasCode(kUnavailable));
    // Read-only calls still work.
    EXPECT_EQ(CallOk(&Admin::ListCollections).collections_size(), 1);
    EXPECT_OK(Call(&Admin::Verify, FromText(kVerify)));
    EXPECT_TRUE(server_->state().distrusted());
  }

  const store::TempDir dir_;
};

// A second implementation of the text in retrieval.proto.
std::string Digest(const std::string& bytes) {
  std::string digest(32, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}
template <typename T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST_F(AuditServiceTest, TheDigestIsOfIdsAndScoresAlone) {
  ServeRows();
  pb::SearchRequest request = SearchFor("c", {1, 0});
  request.set_k(2);
  pb::SearchResponse response;
  ASSERT_OK(Search(request, &response));
  EXPECT_FALSE(response.has_result_digest());
  request.set_with_digest(true);
  *request.add_queries() = request.queries(0);
  ASSERT_OK(Search(request, &response));
  const std::string one = Raw(uint64_t{2}) + Raw(uint64_t{1}) + Raw(uint64_t{4}) +
                          Raw(uint64_t{3}) + Raw(4.0f) + Raw(3.0f);
  EXPECT_EQ(response.result_digest(), Digest("nearfield result digest 1" + one + one));

  // Another epoch, payloads and vectors do not change the digest.
  ASSERT_OK(UploadRows("c", {0}));
  pb::SearchResponse later;
  request.set_with_payload(true);
  request.set_with_vectors(true);
  ASSERT_OK(Search(request, &later));
  EXPECT_NE(later.epoch(), response.epoch());
  EXPECT_EQ(later.result_digest(), response.result_digest());
  request.set_k(1);
  ASSERT_OK(Search(request, &later));
  EXPECT_NE(later.result_digest(), response.result_digest());
}

TEST_F(AuditServiceTest, TheDigestOfTextsAndOfNothing) {
  Serve();
  ASSERT_OK(CreateCollection("t", 2, pb::METRIC_DOT, pb::ID_TYPE_STRING));
  pb::SearchRequest request = SearchFor("t", {1, 0});
  request.set_with_digest(true);
  pb::SearchResponse response;
  ASSERT_OK(Search(request, &response));
  EXPECT_EQ(response.result_digest(),
            Digest("nearfield result digest 1" + Raw(uint64_t{0}) + Raw(uint64_t{0})));
  pb::UploadRequest block =
      FromText("block { ids { texts: 'abc' } vectors { dtype: DATA_TYPE_FLOAT32 } }");
  block.mutable_block()->mutable_vectors()->set_data(Bytes({-1, 0}));
  ASSERT_OK(Send({Begin("t", 1), block, Commit()}));
  ASSERT_OK(Search(request, &response));
  EXPECT_EQ(response.result_digest(),
            Digest("nearfield result digest 1" + Raw(uint64_t{1}) + Raw(uint64_t{2}) +
                   Raw(uint64_t{3}) + "abc" + Raw(-1.0f)));
}

TEST_F(AuditServiceTest, AVerifiedSearchSendsTheRightAnswer) {
  ServeRows();
  pb::SearchRequest request = Verified();
  *request.add_queries() = request.queries(0);
  const auto response = CallOk(&Retrieval::Search, request);
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.results(0).ids().numbers(0), 4u);
  EXPECT_FALSE(server_->state().distrusted());
}

TEST_F(AuditServiceTest, AVerifiedSearchNeverSendsAWrongAnswer) {
  ServeRows();
  FlipAScoreBit();
  pb::SearchResponse response;
  EXPECT_THAT(Search(Verified(), &response), RefusedWith(kDataLoss, "queries[0]", "epoch 1"));
  EXPECT_EQ(response.results_size(), 0);
  AwaitNotServing();
  EXPECT_EQ(RecordsCount(), 1);
  EXPECT_THAT(LogLines(), Contains(AllOf(HasSubstr("a wrong answer or row was found"),
                                         HasSubstr("audit-"), HasSubstr("collection c"))));
  ExpectDistrusted();
}

TEST_F(AuditServiceTest, AWrongScoreInLiveTrafficIsFoundAndEndsTheServing) {
  Set(settings_.audit_one_in, "1");
  ServeRows();
  FlipAScoreBit();
  // The audit runs after the answer was sent.
  EXPECT_OK(Search(SearchFor("c", {1, 0})));
  AwaitNotServing();
  ExpectDistrusted();
  EXPECT_TRUE(Eventually([&] { return RecordsCount() > 0; }));  // written after serving has stopped
}

// The calls that may find a wrong answer.
class AuditedFilterTest : public AuditServiceTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(FoundBy, AuditedFilterTest, ::testing::Values(0, 1, 2));

TEST_P(AuditedFilterTest, ARecordHasTheTextOfTheFilterAsItWasSent) {
  const std::string text = "id in (1, 2,  3)";
  Set(settings_.audit_one_in, "1");
  ServeRows();
  FlipAScoreBit();
  pb::SearchRequest search = GetParam() == 0 ? Verified() : SearchFor("c", {1, 0});
  search.set_filter_text(text);
  pb::VerifyRequest verify = FromText(kVerify);
  verify.set_filter_text(text);
  if (GetParam() == 2) {
    EXPECT_FALSE(CallOk(&Admin::Verify, verify).equal());
  } else {
    EXPECT_THAT(Search(search), HasCode(GetParam() == 0 ? kDataLoss : kOk));
  }
  EXPECT_TRUE(Eventually([&] { return RecordsCount() > 0; }));
  const nlohmann::json record = FirstRecord();
  ASSERT_TRUE(record.is_object());
  EXPECT_EQ(record["found_by"], GetParam() == 1 ? "audit" : "verify");
  EXPECT_EQ(record["filter"].value("text", ""), text);
  EXPECT_FALSE(record["filter"].contains("message"));
}

// Answers whose rows are groups: the rows 1 and 2 are group 1, the rows 3 and 4 group 2.
class AuditedGroupsTest : public AuditServiceTest {
 protected:
  void ServeGroups() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'n' type: ATTRIBUTE_TYPE_INT64 })")));
    pb::UploadRequest block = Block({1, 2, 3, 4});
    *block.mutable_block()->add_attributes() =
        FromText("attribute: 'n' values { int64_values: [1, 1, 2, 2] }");
    ASSERT_OK(Send({Begin("c", 4), block, Commit()}));
  }
  static pb::SearchRequest Grouped(bool verify) {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    request.set_k(2);
    request.set_group_by("n");
    request.set_group_rows(2);
    request.set_verify(verify);
    return request;
  }
  // Makes every answer of the engine have these rows only, with their right scores.
  void AnswerWith(const std::vector<uint64_t>& ids) {
    script_->CorruptAnswers([ids](Neighbors* neighbors) {
      const Neighbors whole = *neighbors;
      *neighbors = {.ids = IdColumn(IdType::kUint64)};
      for (const uint64_t id : ids) {
        for (int64_t row = 0; row < whole.ids.size(); ++row) {
          if (whole.ids.number(row) != id) continue;
          neighbors->ids.AppendNumber(id);
          neighbors->scores.push_back(whole.scores[static_cast<size_t>(row)]);
          neighbors->ordinals.push_back(whole.ordinals[static_cast<size_t>(row)]);
        }
      }
    });
  }
};

TEST_F(AuditedGroupsTest, AVerifiedSearchSendsNoWrongGroups) {
  const std::vector<std::vector<uint64_t>> wrong = {
      {4, 2, 1},     // a row of a group is missing
      {3, 2, 1},     // the best row of a group is missing
      {2, 1},        // a group is missing
      {2, 1, 4, 3},  // the groups are in the wrong order
      {4, 3},        // the last group is missing
  };
  for (const std::vector<uint64_t>& ids : wrong) {
    SCOPED_TRACE(::testing::PrintToString(ids));
    ServeGroups();
    ASSERT_OK(Search(Grouped(true)));
    AnswerWith(ids);
    pb::SearchResponse response;
    EXPECT_THAT(Search(Grouped(true), &response), RefusedWith(kDataLoss, "queries[0]"));
    EXPECT_EQ(response.results_size(), 0);
    EXPECT_TRUE(server_->state().distrusted());
    script_->CorruptAnswers(nullptr);
    Drain();
  }
}

TEST_F(AuditedGroupsTest, AVerifiedPageIsTheNextOne) {
  ServeGroups();
  pb::SearchRequest page = Grouped(true);
  page.set_k(1);
  page.set_with_cursor(true);
  page.set_cursor(CallOk(&Retrieval::Search, page).results(0).next_cursor());
  EXPECT_EQ(CallOk(&Retrieval::Search, page).results(0).ids().numbers(0), 2u);
  AnswerWith({2, 1, 4, 3});
  EXPECT_THAT(Search(page), RefusedWith(kDataLoss, "queries[0]"));
}

TEST_F(AuditedGroupsTest, TheAuditFindsAWrongRowOfAGroup) {
  Set(settings_.audit_one_in, "1");
  Set(settings_.audit_cpu_percent, "100");
  ServeGroups();
  FlipAScoreBit();  // of row 3
  // One claim of each answer is checked at random, after the answer was sent.
  EXPECT_TRUE(Eventually([&] {
    pb::SearchRequest request = Grouped(false);
    auto* const ids = request.add_filter_args()->mutable_ids();
    request.set_filter_text("id in $1");
    for (const uint64_t id : {1, 2, 3, 4}) ids->add_numbers(id);
    Search(request);
    return server_->state().distrusted();
  }));
  EXPECT_TRUE(Eventually([&] { return RecordsCount() > 0; }));
  const nlohmann::json record = FirstRecord();
  ASSERT_TRUE(record.is_object());
  EXPECT_EQ(record["found_by"], "audit");
  EXPECT_EQ(record["filter"].value("text", ""), "(id in $1) and `n` == $2");
  ExpectDistrusted();
}

TEST_F(AuditedGroupsTest, RightGroupsOfLiveTrafficAreAuditedAndCounted) {
  Set(settings_.audit_one_in, "1");
  Set(settings_.audit_cpu_percent, "100");
  ServeGroups();
  const Auditor& auditor = server_->state().core()->audit->auditor;
  for (int64_t i = 1; i <= 20; ++i) {
    ASSERT_OK(Search(Grouped(false)));
    EXPECT_TRUE(Eventually([&] { return auditor.counts().answers_audited >= i; }));
  }
  EXPECT_EQ(auditor.counts().answers_dropped + auditor.counts().answers_failed, 0);
  EXPECT_EQ(auditor.counts().mismatches, 0);
}

TEST_F(AuditServiceTest, AWrongIdInAStreamIsFound) {
  Set(settings_.audit_one_in, "1");
  ServeRows();
  script_->CorruptAnswers([](Neighbors* neighbors) {
    std::vector<uint64_t> ids;
    for (int64_t i = 0; i < neighbors->ids.size(); ++i) ids.push_back(neighbors->ids.number(i));
    std::swap(ids[0], ids[1]);
    neighbors->ids = IdColumn::OfNumbers(ids);
  });
  SearchStreamCall search(*retrieval_, {SearchFor("c", {1, 0})});
  AwaitNotServing();
  search.context.TryCancel();
  EXPECT_THAT(search.Finish(), Not(HasCode(kOk)));
  ExpectDistrusted();
}

TEST_F(AuditServiceTest, RightAnswersOfLiveTrafficAreAuditedAndCounted) {
  Set(settings_.audit_one_in, "1");
  Set(settings_.audit_cpu_percent, "100");
  ServeRows();
  const Auditor& auditor = server_->state().core()->audit->auditor;
  for (int64_t i = 1; i <= 20; ++i) {
    ASSERT_OK(Search(SearchFor("c", {1, static_cast<float>(i)})));
    EXPECT_TRUE(Eventually([&] { return auditor.counts().answers_audited >= i; }));
  }
  EXPECT_EQ(auditor.counts().answers_dropped, 0);
  EXPECT_EQ(auditor.counts().rows_checked, 80);
  EXPECT_EQ(auditor.counts().mismatches, 0);
  Drain();
  EXPECT_THAT(LogLines(),
              Contains(AllOf(HasSubstr("\"audit\""), HasSubstr("\"answers_audited\":20"))));
}

TEST_F(AuditServiceTest, AnswersUnderWayAreWithheldOnceOneWasWrong) {
  ServeRows();
  script_->search_gate.Close();
  auto waiting = std::async(std::launch::async, [&] { return Search(SearchFor("c", {1, 0})); });
  script_->search_gate.AwaitArrivals(1);
  server_->state().Distrust();
  script_->search_gate.Open();
  EXPECT_THAT(waiting.get(), RefusedWith(kUnavailable, "found to be wrong"));
}

TEST_F(AuditServiceTest, WhatAClientClaimsEndsNothing) {
  ServeRows();
  pb::VerifyRequest request =
      FromText(std::string(kVerify) + "epoch: 1 claim { ids { numbers: 1 } scores: 77 }");
  EXPECT_FALSE(CallOk(&Admin::Verify, request).equal());
  EXPECT_FALSE(server_->state().distrusted());
  // A wrong answer of the server itself ends serving.
  FlipAScoreBit();
  request.clear_claim();
  EXPECT_FALSE(CallOk(&Admin::Verify, request).equal());
  AwaitNotServing();
  ExpectDistrusted();
}

TEST_F(AuditServiceTest, TooManyVerifiedSearchesAreRefusedAtOnce) {
  Set(settings_.verify_max, "1");
  ServeRows();
  script_->verify_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Search(Verified()); });
  script_->verify_gate.AwaitArrivals(1);
  ExpectRefusedWithHint(&Retrieval::Search, Verified(),
                        RefusedWith(kResourceExhausted, "too many verifications"));
  EXPECT_OK(Search(SearchFor("c", {1, 0})));  // other searches continue
  script_->verify_gate.Open();
  EXPECT_OK(first.get());
  EXPECT_OK(Search(Verified()));  // the place is free
}

TEST_F(AuditServiceTest, AVerifiedSearchEndsWithItsDeadline) {
  Set(settings_.search_ms_max, "1000");
  ServeRows();
  script_->verify_gate.Close();
  EXPECT_THAT(Search(Verified()), RefusedWith(kDeadlineExceeded, "in the verification"));
  script_->verify_gate.Open();
}

TEST_F(AuditServiceTest, AVerifiedSearchInAStreamFailsTheStream) {
  ServeRows();
  SearchStreamCall search(*retrieval_, {Verified()});
  ASSERT_TRUE(search.Read());
  EXPECT_EQ(search.response.results_size(), 1);
  FlipAScoreBit();
  search.Write(Verified());
  EXPECT_FALSE(search.Read());
  EXPECT_THAT(search.Finish(), HasCode(kDataLoss));
}

TEST_F(AuditServiceTest, EarlierRecordsAreToldOfAtTheStart) {
  std::filesystem::create_directory(dir_ / "audit");
  std::ofstream(dir_ / "audit/audit-1-1.json") << "{}";
  Serve();
  EXPECT_THAT(LogLines(), Contains(HasSubstr("records of earlier mismatches")));
}

}  // namespace
}  // namespace nearfield::server

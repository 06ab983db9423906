// Tests of a collection's scan: its choice, its description, and its accounting in replies and the
// log.
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"
#include "tests/server/store/older_catalog.h"

namespace nearfield::server {
namespace {

class ScanServiceTest : public ServerFixture {
 protected:
  using Change = std::function<void(pb::CreateCollectionRequest&)>;

  grpc::Status Create(const std::string& name, const Change& change,
                      pb::CollectionInfo* info = nullptr) {
    pb::CreateCollectionRequest request =
        FromText("dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64");
    request.set_name(name);
    change(request);
    pb::CreateCollectionResponse response;
    grpc::Status status = Call(&Admin::CreateCollection, request, &response);
    if (info != nullptr) *info = response.collection();
    return status;
  }
  pb::CollectionInfo Get(const std::string& name) {
    return CallOk(&Admin::GetCollection, FromText("name: '" + name + "'")).collection();
  }

  // Serves "codes" and "plain", each with the rows 1, 2, 3, 4: 32 bytes.
  void ServeBoth() {
    Serve();
    ASSERT_OK(Create("codes", [](auto& r) { r.set_scan(pb::SCAN_CHOICE_INT8); }));
    ASSERT_OK(Create("plain", [](auto& r) { r.set_scan(pb::SCAN_CHOICE_ROWS); }));
    ASSERT_OK(UploadRows("codes", {1, 2, 3, 4}));
    ASSERT_OK(UploadRows("plain", {1, 2, 3, 4}));
  }

  grpc::Status SearchAs(const std::string& request_id, const std::string& collection) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", request_id);
    return Search(SearchFor(collection, {1, 0}), nullptr, &context);
  }

  // Searches one at a time, so that none share a pass.
  void StreamAs(const std::string& request_id, const std::vector<std::string>& collections) {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", request_id);
    const auto stream = retrieval_->SearchStream(&context);
    pb::SearchResponse response;
    for (const std::string& collection : collections) {
      ASSERT_TRUE(stream->Write(SearchFor(collection, {1, 0})));
      ASSERT_TRUE(stream->Read(&response));
    }
    stream->WritesDone();
    EXPECT_FALSE(stream->Read(&response));
    ASSERT_OK(stream->Finish());
  }

  // Returns the log line of that call. Requires: the server has drained.
  nlohmann::json LineOf(const std::string& request_id) {
    for (const nlohmann::json& line : LogLinesOf("request")) {
      if (line["request_id"] == request_id) return line;
    }
    ADD_FAILURE() << "no line of " << request_id;
    return {};
  }
};

TEST_F(ScanServiceTest, ACollectionSaysWhatItScansAndWhereItsRowsLie) {
  Serve();
  struct Case {
    pb::ScanChoice asked_scan;
    pb::RowHome asked_rows;
    pb::ScanChoice scan;
    pb::RowHome rows;
  };
  int number = 0;
  for (const Case& c : std::vector<Case>{
           {pb::SCAN_CHOICE_UNSPECIFIED, pb::ROW_HOME_UNSPECIFIED, pb::SCAN_CHOICE_AUTO,
            pb::ROW_HOME_DEVICE},
           {pb::SCAN_CHOICE_AUTO, pb::ROW_HOME_HOST, pb::SCAN_CHOICE_AUTO, pb::ROW_HOME_HOST},
           {pb::SCAN_CHOICE_INT8, pb::ROW_HOME_DEVICE, pb::SCAN_CHOICE_INT8, pb::ROW_HOME_DEVICE},
           {pb::SCAN_CHOICE_INT8, pb::ROW_HOME_HOST, pb::SCAN_CHOICE_INT8, pb::ROW_HOME_HOST},
           {pb::SCAN_CHOICE_INT16, pb::ROW_HOME_HOST, pb::SCAN_CHOICE_INT16, pb::ROW_HOME_HOST},
           {pb::SCAN_CHOICE_ROWS, pb::ROW_HOME_DEVICE, pb::SCAN_CHOICE_ROWS,
            pb::ROW_HOME_DEVICE}}) {
    const std::string name = "c" + std::to_string(number++);
    const Change ask = [&](pb::CreateCollectionRequest& request) {
      request.set_scan(c.asked_scan);
      request.set_rows(c.asked_rows);
    };
    pb::CollectionInfo created;
    ASSERT_OK(Create(name, ask, &created));
    for (const pb::CollectionInfo& info : {created, Get(name)}) {
      EXPECT_EQ(info.scan(), c.scan) << name;
      EXPECT_EQ(info.rows(), c.rows) << name;
    }
  }
}

TEST_F(ScanServiceTest, EveryBadChoiceIsNamedAndNothingIsCreated) {
  Serve();
  // 3 was a bf16 copy of the rows in earlier versions.
  for (const int number : {3, 77}) {
    EXPECT_THAT(Create("c", [&](auto& r) { r.set_scan(static_cast<pb::ScanChoice>(number)); }),
                RefusedWith(kInvalidArgument, "scan = " + std::to_string(number) +
                                                  ", must be AUTO, INT8, INT16 or ROWS"));
  }
  EXPECT_THAT(Create("c", [](auto& r) { r.set_rows(static_cast<pb::RowHome>(-1)); }),
              RefusedWith(kInvalidArgument, "rows = -1, must be DEVICE or HOST"));
  EXPECT_THAT(
      Create("c",
             [](auto& r) {
               r.set_scan(pb::SCAN_CHOICE_ROWS);
               r.set_rows(pb::ROW_HOME_HOST);
             }),
      RefusedWith(kInvalidArgument, "scan: ROWS, must be AUTO, INT8 or INT16", "rows is HOST"));
  EXPECT_OK(Create("c", [](auto&) {})) << "the name is still free";
}

// Earlier versions could create a collection with scan BF16. It is served with int8 codes, and a
// line of the log says so.
TEST_F(ScanServiceTest, AStoredCollectionOfTheRemovedBf16ScanIsServedWithInt8Codes) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  ServeBoth();
  Drain();
  ASSERT_OK(store::SetStoredScan(dir / "data", store::kStoredScanBf16));
  Serve();
  for (const std::string name : {"codes", "plain"}) {
    EXPECT_EQ(Get(name).scan(), pb::SCAN_CHOICE_INT8);
    const auto response = CallOk(&Retrieval::Search, SearchFor(name, {1, 0}));
    EXPECT_EQ(response.cost().scan_precision(), pb::SCAN_PRECISION_INT8);
  }
  Drain();
  std::vector<std::string> told;
  for (const auto& line : LogLinesOf("a collection of scan bf16 is served with int8 codes")) {
    told.push_back(line["collection"]);
  }
  EXPECT_THAT(told, ElementsAre("codes", "plain"));
}

TEST_F(ScanServiceTest, CountersAddUpCallsAndPassesEachOnce) {
  script_->escalations_tighter = 2;
  script_->escalations_canonical = 1;
  ServeBoth();
  script_->search_gate.Close();
  const auto search = [&] { return Search(SearchFor("codes", {1, 0})); };
  auto first = std::async(std::launch::async, search);
  script_->search_gate.AwaitArrivals(1);
  auto second = std::async(std::launch::async, search);
  auto third = std::async(std::launch::async, search);
  EXPECT_TRUE(Eventually([&] { return server_->state().core()->queue.waiting() >= 2; }));
  script_->search_gate.Open();
  for (auto* each : {&first, &second, &third}) ASSERT_OK(each->get());
  ASSERT_OK(Search(SearchFor("plain", {1, 0})));
  EXPECT_THAT(Search(SearchFor("none", {1, 0})), HasCode(kNotFound));

  const pb::GetCountersResponse counters = CallOk(&Admin::GetCounters);
  EXPECT_EQ(counters.passes().passes_count(), 3u) << "the second and the third share one";
  EXPECT_EQ(counters.passes().queries_int8_count(), 3u);
  EXPECT_EQ(counters.passes().queries_rows_count(), 1u);
  EXPECT_EQ(counters.passes().device_us(), 3u * 7);
  EXPECT_EQ(counters.passes().bytes_read(), 3u * 32);
  EXPECT_EQ(counters.passes().escalations().tighter(), 3u * 2);
  EXPECT_EQ(counters.passes().escalations().canonical(), 3u);
  std::vector<std::string> calls;
  for (const pb::CallCounter& each : counters.calls()) {
    calls.push_back(each.method() + " " + each.status() + " " + std::to_string(each.calls_count()) +
                    " of " + std::to_string(each.rows_count()));
  }
  EXPECT_THAT(calls, ElementsAre("CreateCollection OK 2 of 0", "Search NOT_FOUND 1 of 0",
                                 "Search OK 4 of 16", "Upload OK 2 of 8"));
}

TEST_F(ScanServiceTest, AReplyTellsThePathItsEscalationsAndTheReadLimit) {
  script_->read_bytes_per_second = 1'000'000'000;
  script_->escalations_tighter = 2;
  script_->escalations_canonical = 1;
  ServeBoth();
  pb::SearchResponse response;
  ASSERT_OK(Search(SearchFor("codes", {1, 0}), &response));
  EXPECT_EQ(response.cost().scan_precision(), pb::SCAN_PRECISION_INT8);
  EXPECT_EQ(response.cost().escalations().tighter(), 2u);
  EXPECT_EQ(response.cost().escalations().canonical(), 1u);
  EXPECT_EQ(response.cost().bytes_read(), 32u);
  EXPECT_EQ(response.cost().read_ns_min(), 32u);
  ASSERT_OK(Search(SearchFor("plain", {1, 0}), &response));
  EXPECT_EQ(response.cost().scan_precision(), pb::SCAN_PRECISION_ROWS);
}

TEST_F(ScanServiceTest, WithoutAKnownBandwidthThereIsNoReadLimit) {
  ServeBoth();
  const auto response = CallOk(&Retrieval::Search, SearchFor("codes", {1, 0}));
  EXPECT_EQ(response.cost().bytes_read(), 32u);
  EXPECT_EQ(response.cost().read_ns_min(), 0u);
}

TEST_F(ScanServiceTest, TheLogLineOfASearchNamesItsScan) {
  script_->escalations_tighter = 3;
  script_->escalations_canonical = 1;
  ServeBoth();
  ASSERT_OK(SearchAs("codes", "codes"));
  ASSERT_OK(SearchAs("plain", "plain"));
  ASSERT_THAT(SearchAs("none", "none"), HasCode(kNotFound));
  Drain();
  const nlohmann::json codes = LineOf("codes");
  EXPECT_EQ(codes["scan"], "int8");
  EXPECT_EQ(codes["escalations_tighter"], 3);
  EXPECT_EQ(codes["escalations_canonical"], 1);
  EXPECT_EQ(LineOf("plain")["scan"], "rows");
  const nlohmann::json none = LineOf("none");
  EXPECT_EQ(none["scan"], "") << "it never reached the engine";
  EXPECT_EQ(none["escalations_tighter"], 0);
}

TEST_F(ScanServiceTest, TheLogLineOfAStreamAddsUpItsSearches) {
  script_->escalations_tighter = 3;
  ServeBoth();
  StreamAs("same", {"codes", "codes"});
  StreamAs("both", {"codes", "plain", "codes"});
  Drain();
  const nlohmann::json same = LineOf("same");
  EXPECT_EQ(same["scan"], "int8");
  EXPECT_EQ(same["escalations_tighter"], 6);
  const nlohmann::json both = LineOf("both");
  EXPECT_EQ(both["scan"], "mixed");
  EXPECT_EQ(both["escalations_tighter"], 9);
}

}  // namespace
}  // namespace nearfield::server

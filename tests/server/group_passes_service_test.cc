// Tests of calls that make several passes, groups and facets: their sums, and what ends them
// between two passes.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "server/rpc/waiting_call.h"
#include "tests/server/fake_clock.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

// Searches whose passes wait at a gate. A pass finds two rows.
class GroupPassesTest : public ServerFixture {
 protected:
  GroupPassesTest() { Set(settings_.k_max, "2"); }

  // Serves the rows 1 .. 6; two rows are a group, and the first pass finds the last group only.
  void ServeGroups() {
    Serve();
    ASSERT_OK(Call(&Admin::CreateCollection, FromText(R"(
        name: 'c' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: ID_TYPE_UINT64
        attributes { name: 'n' type: ATTRIBUTE_TYPE_INT64 })")));
    pb::UploadRequest block = Block({1, 2, 3, 4, 5, 6});
    *block.mutable_block()->add_attributes() =
        FromText("attribute: 'n' values { int64_values: [1, 1, 2, 2, 3, 3] }");
    ASSERT_OK(Send({Begin("c", 6), block, Commit()}));
  }
  static pb::SearchRequest Grouped() {
    pb::SearchRequest request = SearchFor("c", {1, 0});
    request.set_k(2);
    request.set_group_by("n");
    return request;
  }
  static pb::FacetsRequest NearFacets() {
    return FromText(
        "collection: 'c' attributes: 'n' query { vector { values: [1, 0] } } "
        "score_threshold: 2");
  }
  // Makes the call and holds it in its first pass, which ends whatever happens to the call.
  template <typename Call>
  std::future<grpc::Status> Hold(Call call) {
    script_->deaf_searches = true;
    script_->search_gate.Close();
    auto status = std::async(std::launch::async, call);
    script_->search_gate.AwaitArrivals(1);
    return status;
  }
  auto Searches() {
    return [this] { return Search(Grouped()); };
  }
  auto CountsFacets() {
    return [this] { return Call(&Retrieval::Facets, NearFacets()); };
  }
  template <typename Call>
  void ExpectNoPassAfterTheDeadline(Call call) {
    FakeClock clock;
    server_clock_ = &clock;
    Set(settings_.search_ms_max, "1000");
    ServeGroups();
    auto status = Hold(std::move(call));
    clock.Advance(std::chrono::seconds(2));
    script_->search_gate.Open();
    EXPECT_THAT(status.get(), HasCode(kDeadlineExceeded));
    EXPECT_EQ(script_->searches, 1);
    Drain();  // the clock ends here
  }
  // Requires: the server serves.
  template <typename Request, typename Response>
  void ExpectNoPassAfterTheCallerHasGone(
      ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>), const Request& request) {
    script_->deaf_searches = true;
    script_->search_gate.Close();
    Response response;
    WaitingUnary call;
    call.Bind(
        (server_->service().*method)({&call, std::make_shared<const Request>(request), &response}));
    script_->search_gate.AwaitArrivals(1);
    call.Cancel();
    script_->search_gate.Open();
    EXPECT_THAT(call.AwaitEnd().status, StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(script_->searches, 1);
  }
  template <typename Call>
  void ExpectTheEndOfMemory(Call call) {
    ServeGroups();
    auto status = Hold(std::move(call));
    ByteAccount& requests = server_->state().ledger().requests;
    {
      ASSERT_OK_AND_ASSIGN(auto all, requests.Reserve("other", 0));
      all.Resize(requests.bytes_max());
      script_->search_gate.Open();
      EXPECT_THAT(status.get(), RefusedWith(kResourceExhausted, "requests_bytes_max"));
    }
    EXPECT_TRUE(Eventually([&] { return requests.bytes() == 0; }));
  }
};

TEST_F(GroupPassesTest, ASearchRunsThePassesThatItNeeds) {
  ServeGroups();
  const pb::SearchResponse response = CallOk(&Retrieval::Search, Grouped());
  EXPECT_EQ(response.results(0).groups().ShortDebugString(),
            "values { int64_values: 3 int64_values: 2 } rows_counts: 1 rows_counts: 1");
  EXPECT_EQ(script_->searches, 2);
  EXPECT_EQ(CallOk(&Retrieval::Facets, NearFacets()).rows_count(), 5u);
  EXPECT_TRUE(Eventually([&] {
    return server_->state().call_counter().counts().count({"Facets", "OK"}) == 1;
  }));
  Drain();
  const auto lines = LogLinesOf("request");
  const auto line_of = [&](const std::string& method) {
    return *std::find_if(lines.begin(), lines.end(),
                         [&](const auto& line) { return line["method"] == method; });
  };
  EXPECT_EQ(line_of("Search")["queries"], 1);
  EXPECT_EQ(line_of("Search")["rows"], 2);
  EXPECT_EQ(line_of("Search")["device_us"], 2 * 7) << "of both passes";
  EXPECT_EQ(line_of("Facets")["queries"], 1);
  EXPECT_EQ(line_of("Facets")["rows"], 5);
}

TEST_F(GroupPassesTest, NoPassOfGroupsBeginsAfterTheDeadline) {
  ExpectNoPassAfterTheDeadline(Searches());
}

TEST_F(GroupPassesTest, NoPassOfFacetsBeginsAfterTheDeadline) {
  ExpectNoPassAfterTheDeadline(CountsFacets());
}

TEST_F(GroupPassesTest, NoPassOfGroupsBeginsAfterTheCallerHasGone) {
  ServeGroups();
  ExpectNoPassAfterTheCallerHasGone(&NearfieldService::Search, Grouped());
}

TEST_F(GroupPassesTest, NoPassOfFacetsBeginsAfterTheCallerHasGone) {
  ServeGroups();
  ExpectNoPassAfterTheCallerHasGone(&NearfieldService::Facets, NearFacets());
}

TEST_F(GroupPassesTest, GroupsEndWhereMemoryEnds) {
  ExpectTheEndOfMemory(Searches());
  EXPECT_EQ(script_->searches, 1);
}

TEST_F(GroupPassesTest, FacetsEndWhereMemoryEnds) { ExpectTheEndOfMemory(CountsFacets()); }

}  // namespace
}  // namespace nearfield::server

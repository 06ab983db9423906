// Tests of searches on the device by a caller in this process: the same answers as Search, filters,
// errors, log lines. The device of the scripted engine has host memory.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/rpc/device_search_call.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

class DeviceSearchCallTest : public ServerFixture {
 protected:
  // Searches "c" for (x, 1) with k = 3.
  absl::StatusOr<DeviceSearchResult> OnDevice(float x, const CallFacts& facts = {}) {
    query_ = {x, 1};
    request_.collection = "c";
    request_.search.queries = query_.data();
    request_.search.queries_count = 1;
    request_.search.dim = 2;
    request_.search.k = 3;
    request_.search.scores = scores_.data();
    request_.search.ids = ids_.data();
    request_.search.counts = counts_.data();
    return SearchOnDevice(&server_->state(), facts, request_);
  }

  DeviceSearchRequest request_;
  std::vector<float> query_;
  std::vector<float> scores_ = std::vector<float>(3);
  std::vector<uint64_t> ids_ = std::vector<uint64_t>(3);
  std::vector<int32_t> counts_ = std::vector<int32_t>(1);
};

TEST_F(DeviceSearchCallTest, AnswersAsSearchDoes) {
  ServeRows();
  ASSERT_OK_AND_ASSIGN(const DeviceSearchResult result, OnDevice(2));
  EXPECT_EQ(result.matched_rows, 4);
  EXPECT_THAT(ids_, ElementsAre(4, 3, 2));
  EXPECT_THAT(scores_, ElementsAre(9, 7, 5));
  EXPECT_THAT(counts_, ElementsAre(3));
  pb::SearchRequest same = FromText("collection: 'c' k: 3 queries { vector { values: [2, 1] } }");
  pb::SearchResponse response;
  ASSERT_OK(Search(same, &response));
  EXPECT_THAT(response.results(0).ids().numbers(), ElementsAre(4, 3, 2));
  EXPECT_EQ(response.epoch(), result.epoch);
}

TEST_F(DeviceSearchCallTest, AFilterChoosesTheRows) {
  ServeRows();
  request_.filter_text = "id == 1 or id == 3";
  ASSERT_OK_AND_ASSIGN(const DeviceSearchResult result, OnDevice(2));
  EXPECT_EQ(result.matched_rows, 2);
  EXPECT_THAT(counts_, ElementsAre(2));
  EXPECT_EQ(ids_[0], 3u);
  EXPECT_EQ(ids_[1], 1u);
  EXPECT_TRUE(std::isnan(scores_[2]));
  request_.filter_text = "id == ";
  EXPECT_THAT(OnDevice(2), StatusIs(kInvalidArgument, HasSubstr("filter_text")));
}

TEST_F(DeviceSearchCallTest, ErrorsAndLogLinesAreThoseOfACall) {
  ServeRows();
  ASSERT_OK(OnDevice(2, {.request_id = "first", .caller_name = {}, .peer = "in-process"}));
  EXPECT_THAT(OnDevice(std::nanf("")), StatusIs(kInvalidArgument, HasSubstr("not finite")));
  EXPECT_THAT(OnDevice(2, {.deadline = std::chrono::system_clock::now()}),
              StatusIs(kDeadlineExceeded));
  request_.collection = "d";
  EXPECT_THAT(SearchOnDevice(&server_->state(), {}, request_),
              StatusIs(kNotFound, HasSubstr("collection")));
  script_->device->Lose();
  EXPECT_THAT(OnDevice(2), StatusIs(kUnavailable));
  Drain();
  std::vector<std::string> codes;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    if (line["method"] == "SearchOnDevice") codes.push_back(line["status"]);
  }
  EXPECT_THAT(codes, ElementsAre("OK", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
                                 "UNAVAILABLE"));
}

TEST_F(DeviceSearchCallTest, MemoryIsTakenFromTheEngine) {
  ServeEmpty();
  const int64_t before = script_->device->bytes_used();
  ASSERT_OK_AND_ASSIGN(auto memory, TakeDeviceMemory(&server_->state(), 4096));
  EXPECT_EQ(script_->device->bytes_used(), before + 4096);
  memory.reset();
  EXPECT_EQ(script_->device->bytes_used(), before);
  EXPECT_THAT(TakeDeviceMemory(&server_->state(), int64_t{1} << 40), StatusIs(kResourceExhausted));
}

}  // namespace
}  // namespace nearfield::server

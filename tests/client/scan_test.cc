// Tests of the scan options and costs in the library's requests and replies.

#include <optional>
#include <vector>

#include "nearfield/client/client.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/client/prelude.h"
#include "tests/client/test_server.h"

namespace nearfield::client {
namespace {

Client ConnectTo(const TestServer& server) {
  return *Client::Connect({.address = server.address()});
}

TEST(ClientScan, ACollectionKeepsWhatItWasAskedToScan) {
  TestServer server;
  Client client = ConnectTo(server);
  ASSERT_OK_AND_ASSIGN(const auto plain, client.CreateCollection({.name = "plain", .dim = 2}));
  EXPECT_EQ(plain.spec.scan, ScanChoice::kAuto);
  EXPECT_EQ(plain.spec.rows, RowPlacement::kDevice);
  ASSERT_OK(client.CreateCollection({.name = "huge",
                                     .dim = 2,
                                     .scan = ScanChoice::kInt8,
                                     .rows = RowPlacement::kHost,
                                     .devices = 3,
                                     .embedding_model = "some/model"}));
  ASSERT_OK_AND_ASSIGN(const auto huge, client.GetCollection("huge"));
  EXPECT_EQ(huge.spec.scan, ScanChoice::kInt8);
  EXPECT_EQ(huge.spec.rows, RowPlacement::kHost);
  EXPECT_EQ(huge.spec.devices, 3u);
  EXPECT_EQ(huge.spec.embedding_model, "some/model");
  EXPECT_THAT(
      client.CreateCollection({.name = "many", .dim = 2, .devices = 17}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("devices = 17, must be 0 .. 16")));
  // Values that a newer server may send, and fields that an older one omits.
  server.OnReply<v1::CreateCollectionResponse>("CreateCollection", [](auto* reply) {
    reply->mutable_collection()->set_scan(static_cast<v1::ScanChoice>(99));
    reply->mutable_collection()->set_rows(static_cast<v1::RowHome>(99));
  });
  ASSERT_OK_AND_ASSIGN(const auto newer, client.CreateCollection({.name = "newer", .dim = 2}));
  EXPECT_EQ(newer.spec.scan, ScanChoice::kUnknown);
  EXPECT_EQ(newer.spec.rows, RowPlacement::kUnknown);
  server.OnReply<v1::CreateCollectionResponse>("CreateCollection", [](auto* reply) {
    reply->mutable_collection()->clear_scan();
    reply->mutable_collection()->clear_rows();
  });
  ASSERT_OK_AND_ASSIGN(const auto older, client.CreateCollection({.name = "older", .dim = 2}));
  EXPECT_EQ(older.spec.scan, ScanChoice::kUnknown);
}

TEST(ClientScan, TheCostTellsEscalationsAndTheShareOfTheReadLimit) {
  TestServer server;
  Client client = ConnectTo(server);
  ASSERT_OK(client.CreateCollection({.name = "c", .dim = 2}));
  const std::vector<float> query = {2, 1};
  server.OnReply<v1::SearchResponse>("Search", [](auto* response) {
    v1::SearchCost* cost = response->mutable_cost();
    cost->set_scan_precision(v1::SCAN_PRECISION_INT8);
    cost->set_device_us(250);
    cost->set_bytes_read(1'024'000'000);
    cost->set_read_ns_min(225'000);
    cost->mutable_escalations()->set_tighter(2);
    cost->mutable_escalations()->set_canonical(1);
  });
  ASSERT_OK_AND_ASSIGN(const auto answer, client.Search("c", query));
  EXPECT_EQ(answer.cost.scan_precision, ScanPrecision::kInt8);
  EXPECT_EQ(answer.cost.escalations.tighter, 2u);
  EXPECT_EQ(answer.cost.escalations.canonical, 1u);
  EXPECT_EQ(answer.cost.read_ns_min, 225'000u);
  ASSERT_TRUE(answer.cost.read_limit_share().has_value());
  EXPECT_EQ(*answer.cost.read_limit_share(), 0.9);
  server.OnReply<v1::SearchResponse>("Search", [](auto* response) {
    response->mutable_cost()->set_device_us(250);  // the server does not know its bandwidth
  });
  EXPECT_EQ(client.Search("c", query)->cost.read_limit_share(), std::nullopt);
  server.OnReply<v1::SearchResponse>("Search", [](auto* response) {
    response->mutable_cost()->set_read_ns_min(900);  // too short a pass to measure
  });
  EXPECT_EQ(client.Search("c", query)->cost.read_limit_share(), std::nullopt);
}

}  // namespace
}  // namespace nearfield::client
